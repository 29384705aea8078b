"""The columns that this environment adds to a row, for `gym env schema` and for the validation of data sets."""

from pydantic import BaseModel, ConfigDict, Field


class TaskData(BaseModel):
    model_config = ConfigDict(extra="allow")

    reference: str = Field(
        description="The problem's public name: task, split, seed, level, library, hash of the question, parameters.",
        json_schema_extra={"consumed_by": ["verify"]},
    )
