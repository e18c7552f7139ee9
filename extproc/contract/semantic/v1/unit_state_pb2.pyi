from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class UnitState(_message.Message):
    __slots__ = ("unit", "context", "state", "epoch", "release", "cause", "by", "at")
    UNIT_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    unit: str
    context: str
    state: str
    epoch: int
    release: str
    cause: str
    by: str
    at: float
    def __init__(self, unit: _Optional[str] = ..., context: _Optional[str] = ..., state: _Optional[str] = ..., epoch: _Optional[int] = ..., release: _Optional[str] = ..., cause: _Optional[str] = ..., by: _Optional[str] = ..., at: _Optional[float] = ...) -> None: ...
