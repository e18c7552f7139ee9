"""What may call for a rollback: one name for each thing that a gate can find."""

from __future__ import annotations

from enum import StrEnum


class Condition(StrEnum):
    """Names for ``rollback_conditions``. A run *hits* those whose checks failed."""

    MODEL_LOAD = "gate_1_model_load_failed"
    """The server was not ready in time, or does not know its model."""

    LOGIT_DRIFT = "gate_2_logit_drift_exceeded"
    """Log probabilities differ from the baseline's, or from another tensor-parallel degree's, by
    more than the tolerance, or are no finite numbers where the baseline's are."""

    PERPLEXITY_DRIFT = "gate_2_perplexity_drift_exceeded"
    NOT_FINITE = "gate_2_nan_inf_detected"
    PROBE = "gate_3_deterministic_probe_failed"
    LONG_CONTEXT = "gate_4_long_context_failed"
    JSON_RATE = "gate_4_json_parse_rate_dropped"
    TOOL_CALL = "gate_4_tool_call_schema_failed"
    SUCCESS = "gate_5_task_success_dropped"
    DEGENERATION = "gate_5_degeneration_rate_exceeded"
    FALLBACK = "unexplained_kernel_fallback_detected"
    """The start-up log tells of an operator or a kernel that was replaced by another, which no
    approved release has."""

    PATH = "dtype_path_changed_without_approval"
    """The execution path differs from the approved one, or from what the configuration says."""


DEFAULT = (
    Condition.PROBE,
    Condition.LOGIT_DRIFT,
    Condition.SUCCESS,
    Condition.FALLBACK,
    Condition.PATH,
)
"""What calls for a rollback where the settings name nothing."""
