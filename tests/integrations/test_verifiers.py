"""The taskset through verifiers' own command line."""

from __future__ import annotations

import pytest

pytest.importorskip("verifiers.v1", reason="needs the extra `verifiers`: make integrations")


pytestmark = pytest.mark.slow
