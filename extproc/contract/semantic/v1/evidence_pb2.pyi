from extproc.contract.semantic.v1 import verdict_pb2 as _verdict_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Evidence(_message.Message):
    __slots__ = ("id", "subject", "at", "unit", "release", "context", "host", "verdict", "findings", "request_id", "traceparent", "attempt", "before", "after", "cause", "e_value", "sample", "sample_until", "text_hash")
    ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    E_VALUE_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_UNTIL_FIELD_NUMBER: _ClassVar[int]
    TEXT_HASH_FIELD_NUMBER: _ClassVar[int]
    id: str
    subject: str
    at: float
    unit: str
    release: str
    context: str
    host: str
    verdict: str
    findings: _containers.RepeatedCompositeFieldContainer[_verdict_pb2.Finding]
    request_id: str
    traceparent: str
    attempt: int
    before: str
    after: str
    cause: str
    e_value: float
    sample: str
    sample_until: float
    text_hash: str
    def __init__(self, id: _Optional[str] = ..., subject: _Optional[str] = ..., at: _Optional[float] = ..., unit: _Optional[str] = ..., release: _Optional[str] = ..., context: _Optional[str] = ..., host: _Optional[str] = ..., verdict: _Optional[str] = ..., findings: _Optional[_Iterable[_Union[_verdict_pb2.Finding, _Mapping]]] = ..., request_id: _Optional[str] = ..., traceparent: _Optional[str] = ..., attempt: _Optional[int] = ..., before: _Optional[str] = ..., after: _Optional[str] = ..., cause: _Optional[str] = ..., e_value: _Optional[float] = ..., sample: _Optional[str] = ..., sample_until: _Optional[float] = ..., text_hash: _Optional[str] = ...) -> None: ...
