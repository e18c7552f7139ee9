from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Finding(_message.Message):
    __slots__ = ("detector", "reason", "value", "threshold", "weight", "shape")
    DETECTOR_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    detector: str
    reason: str
    value: float
    threshold: float
    weight: str
    shape: str
    def __init__(self, detector: _Optional[str] = ..., reason: _Optional[str] = ..., value: _Optional[float] = ..., threshold: _Optional[float] = ..., weight: _Optional[str] = ..., shape: _Optional[str] = ...) -> None: ...

class Verdict(_message.Message):
    __slots__ = ("kind", "findings", "first_token")
    KIND_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    FIRST_TOKEN_FIELD_NUMBER: _ClassVar[int]
    kind: str
    findings: _containers.RepeatedCompositeFieldContainer[Finding]
    first_token: int
    def __init__(self, kind: _Optional[str] = ..., findings: _Optional[_Iterable[_Union[Finding, _Mapping]]] = ..., first_token: _Optional[int] = ...) -> None: ...
