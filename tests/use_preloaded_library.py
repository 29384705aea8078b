"""Imported by the process that forks programs for tests, so that the fork servers of these programs are forks too."""

from __future__ import annotations

import os

from .preloaded_library import FOLDER_VARIABLE, use_preloaded

use_preloaded(os.environ[FOLDER_VARIABLE])
