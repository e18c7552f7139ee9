"""Settings in, a finished run out."""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from extproc.gates.canary import canary_gate
from extproc.gates.endpoint import Endpoint, Secrets, shown
from extproc.gates.golden import golden_gate
from extproc.gates.load import load_gate
from extproc.gates.long_context import long_context_gate
from extproc.gates.numerical import NumericalRun, numerical_gate
from extproc.gates.outcome import Check, Status, overall
from extproc.gates.path import ExecutionPath, execution_path, path_check
from extproc.gates.plan import Gate, Planned, digest
from extproc.gates.prompts import read_prompts
from extproc.gates.reading import UnusableInput
from extproc.gates.rollback import Rollbacks
from extproc.gates.run import Report, State, Subject, Watcher, finish, run_gates
from extproc.gates.settings import GateSettings, GateTargets, Service
from extproc.gates.startup import Scalar, StartupLog, read_log
from extproc.gates.store import Approval, Record, Store, StoreTrouble, now
from extproc.probes import Client, ClientSettings, ClientTls, Misconfigured, Target
from extproc.probes.kinds import Golden

ALL_GATES = frozenset({1, 2, 3, 4, 5})

ADMIN_TOKEN = "SEMANTIC_EXTPROC_ADMIN_TOKEN"
"""Environment variable with the token that the sidecar's admin API may want."""

ADMIN_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Options:
    """What a run is told beside its two files. ``startup_log``: "-" is standard input."""

    gates: frozenset[int] = ALL_GATES
    release: str = ""
    startup_log: str = ""
    golden: Path | None = None
    show_answers: bool = False
    fail_fast: bool = False
    resume: bool = False


@dataclass(slots=True)
class Inputs:
    """Everything that is read before anything is asked."""

    settings: GateSettings
    targets: GateTargets
    options: Options
    log: StartupLog | None = None
    log_source: str = ""
    log_digest: str = ""
    prompts: Sequence[Golden] = ()
    notes: list[str] = field(default_factory=list)

    @property
    def release(self) -> str:
        return self.options.release or self.targets.release

    @property
    def services(self) -> list[tuple[str, Service]]:
        """Every server that may be asked, with the name that its settings have."""
        service = self.targets.service
        found = [("service.under_test", service.under_test)]
        if service.baseline is not None:
            found.append(("service.baseline", service.baseline))
        return found + [(f"service.tp.{degree}", each) for degree, each in service.tp.items()]


def gather(settings: GateSettings, targets: GateTargets, options: Options) -> Inputs:
    """Reads the start-up log and the golden prompts. Raises UnusableInput."""
    inputs = Inputs(settings, targets, options)
    given = options.startup_log or str(targets.service.under_test.startup_log or "")
    if given:
        inputs.log_source = "standard input" if given == "-" else given
        inputs.log, inputs.log_digest = _read_log(given)
    file = options.golden or settings.gate_config.gate_3_golden_prompt.prompts_file
    if file is not None:
        inputs.prompts = read_prompts(file)
    for name, service in inputs.services:
        key = service.api_key_env
        if key and not os.environ.get(key, "").strip():
            inputs.notes.append(f"{key} is not set: {name} is asked without a key")
    return inputs


async def run(inputs: Inputs, store: Store, watcher: Watcher) -> Report:
    """Runs the gates. Raises StoreTrouble. Cancelled, it leaves a state that can be resumed; a call
    for a rollback that has begun is brought to its end by the caller, which shields it."""
    async with _opened(inputs, store) as opened:
        results = await run_gates(
            opened.gates, opened.state, watcher, opened.secrets.scrub, inputs.options.fail_fast
        )
        path = opened.path()
        record = opened.record(overall(gate.status for gate in results))
        store.save(record)
        (path_result,) = results[-1].checks
        if path_result.status is Status.PASSED:
            store.accept(record)
        return await finish(
            results,
            opened.subject,
            inputs.settings.rollback_conditions,
            Rollbacks(
                inputs.targets.rollback,
                [ADMIN_TOKEN, *(service.api_key_env for _, service in inputs.services)],
            ),
            opened.state,
            path.fields,
        )


class _Opened:
    """A run with its servers at hand."""

    def __init__(self, inputs: Inputs, store: Store, stack: AsyncExitStack) -> None:
        self._inputs = inputs
        self._store = store
        targets = inputs.targets
        service = targets.service
        self.secrets = Secrets([ADMIN_TOKEN, *(s.api_key_env for _, s in inputs.services)])
        self.candidate = Endpoint("candidate", service.under_test, stack)
        self._baseline = (
            Endpoint("baseline", service.baseline, stack) if service.baseline is not None else None
        )
        self._variants = {
            int(degree): Endpoint(f"TP {degree}", each, stack)
            for degree, each in service.tp.items()
        }
        self._server: dict[str, Scalar] = {}
        self._numerical: NumericalRun | None = None
        self.approval = store.reference(inputs.release, service.under_test.model)
        self.admin: Client | None = None
        self.gates: list[Gate] = []
        self.subject = Subject(
            inputs.release,
            service.under_test.model,
            shown(service.under_test.base_url),
            shown(service.baseline.base_url) if service.baseline is not None else None,
            tuple(self.secrets.scrub(note) for note in inputs.notes),
        )
        key = digest([inputs.release, self.candidate.identity])
        self.run_file = store.run_file(key)
        kept = store.read(self.run_file) if inputs.options.resume else None
        self.state = State(store, self.run_file, kept)

    async def open(self, stack: AsyncExitStack) -> None:
        """Opens the admin API, and lays out the gates."""
        sidecar = self._inputs.targets.sidecar
        if sidecar is not None:
            token = ADMIN_TOKEN if os.environ.get(ADMIN_TOKEN, "").strip() else ""
            target = Target(sidecar.admin_url, api_key_env=token, tls=_admin_tls())
            settings = ClientSettings(timeout=ADMIN_SECONDS, retries=1)
            try:
                self.admin = await stack.enter_async_context(Client(target, settings))
            except Misconfigured as error:
                raise UnusableInput([f"sidecar.admin_url: {error}"]) from None
        self.gates = list(self._laid_out())

    def path(self) -> ExecutionPath:
        """The execution path, as far as it is known by now."""
        inputs = self._inputs
        return execution_path(inputs.targets.matrix, inputs.log, self._server)

    def record(self, result: Status) -> Record:
        """What is kept of the release. What this run was not given or did not measure stays as the
        last run had it: gates of one release may be run apart."""
        inputs = self._inputs
        last = self._store.record(inputs.release)
        alarms: tuple[str, ...] = ()
        path: dict[str, Scalar] = {}
        if inputs.log is not None:
            alarms = tuple(alarm.key for alarm in inputs.log.alarms)
        elif last is not None:
            alarms, path = last.alarms, dict(last.path)
        reference = self._numerical.measurements.kept() if self._numerical is not None else None
        if reference is None:
            reference = dict(last.reference) if last is not None else {}
        return Record(
            inputs.release,
            inputs.targets.service.under_test.model,
            now(),
            {**path, **self.path().fields},
            alarms,
            reference,
            result.value,
        )

    def _laid_out(self) -> Iterator[Gate]:
        inputs, config = self._inputs, self._inputs.settings.gate_config
        wanted = inputs.options.gates
        approval: Approval | None = self.approval
        if 1 in wanted and config.gate_1_model_load.enabled:
            yield load_gate(
                config.gate_1_model_load,
                self.candidate,
                inputs.log,
                inputs.log_source,
                inputs.log_digest,
                approval,
            )
        if 2 in wanted and config.gate_2_numerical.enabled:
            gate, self._numerical = numerical_gate(
                config.gate_2_numerical,
                self.candidate,
                self._baseline,
                self._variants,
                inputs.targets.matrix.parallelism_tp,
                approval,
            )
            yield gate
        if 3 in wanted and config.gate_3_golden_prompt.enabled:
            yield golden_gate(
                config.gate_3_golden_prompt,
                self.candidate,
                inputs.prompts,
                inputs.options.show_answers,
            )
        if 4 in wanted and config.gate_4_long_context.enabled:
            yield long_context_gate(config.gate_4_long_context, self.candidate)
        if 5 in wanted and config.gate_5_shadow_canary.enabled:
            yield canary_gate(config.gate_5_shadow_canary, inputs.targets.sidecar, self.admin)
        yield Gate(
            0,
            "execution_path",
            (Planned("dtype_path", self._path_check, derived=True),),
            needs_server=False,
        )

    async def _path_check(self, _: tuple[Check, ...]) -> Check:
        if said := self.candidate.told_quantization:  # when gate 1 asked
            self._server["quantization"] = said
        last = self._store.accepted(self._inputs.targets.service.under_test.model)
        return path_check(self.path(), self.approval, last)


@asynccontextmanager
async def _opened(inputs: Inputs, store: Store) -> AsyncIterator[_Opened]:
    async with AsyncExitStack() as stack:
        opened = _Opened(inputs, store, stack)
        stack.enter_context(_alone(opened.run_file))
        await opened.open(stack)
        yield opened


@contextmanager
def _alone(run_file: Path) -> Iterator[None]:
    """Holds the lock of one run. Raises StoreTrouble if another process has it."""
    try:
        run_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = run_file.with_suffix(".lock").open("w")
    except OSError as error:
        raise StoreTrouble(
            f"{run_file.parent}: {error.strerror}; name another folder with --state"
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StoreTrouble(
                "another run of this release on this endpoint is going on; wait for it, or name "
                "another folder with --state"
            ) from None
        yield


def _admin_tls() -> ClientTls:
    """As the commands for a running sidecar: files that the environment names."""
    given = [os.environ.get(f"SEMANTIC_EXTPROC_ADMIN_{n}_FILE") for n in ("CA", "CERT", "KEY")]
    ca, cert, key = (Path(name) if name else None for name in given)
    return ClientTls(ca, cert, key)


def _read_log(given: str) -> tuple[StartupLog, str]:
    mark = hashlib.sha256()

    def lines(stream: Iterator[bytes]) -> Iterator[str]:
        for line in stream:
            mark.update(line)
            yield line.decode(errors="replace")

    try:
        if given == "-":
            log = read_log(lines(iter(sys.stdin.buffer)))
        else:
            with Path(given).open("rb") as file:
                log = read_log(lines(iter(file)))
    except OSError as error:
        raise UnusableInput(
            [f"{given}: the start-up log cannot be read: {error.strerror or error}"]
        ) from None
    return log, mark.hexdigest()[:32]
