"""A real Prometheus on a free port of the loopback, with the shipped rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import aiohttp
import yaml

from extproc.demo.http import answers
from extproc.demo.ports import free_ports
from extproc.demo.processes import Processes, wait_ready
from tests.observability.tools import binary

RULES = Path(__file__).resolve().parents[2] / "envoy/prometheus/rules.yaml"


class Prometheus:
    """Scrapes each of ``jobs`` (name -> URL of its metrics) every second."""

    def __init__(self, folder: Path, jobs: dict[str, str]) -> None:
        self._binary = binary("prometheus", "prometheus")
        self._folder = folder
        self._jobs = jobs
        self._processes = Processes(folder)
        self._session: aiohttp.ClientSession
        self.url = ""

    async def __aenter__(self) -> Self:
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        config = self._folder / "prometheus.yml"
        config.write_text(yaml.safe_dump(self._config()))
        self._processes.__enter__()
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30))
        command = [self._binary, f"--config.file={config}"]
        command += [f"--storage.tsdb.path={self._folder / 'tsdb'}"]
        command += [f"--web.listen-address=127.0.0.1:{port}"]
        command += ["--enable-feature=exemplar-storage", "--log.level=warn"]
        process = self._processes.start("prometheus", command)
        await wait_ready(process, answers(self._session, f"{self.url}/-/ready"))

        async def scraping() -> bool:
            return len(await self.query("up == 1")) == len(self._jobs)

        await wait_ready(process, scraping)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()
        self._processes.__exit__(None, None, None)

    def _config(self) -> dict[str, Any]:
        scrapes = []
        for job, url in self._jobs.items():
            host, _, path = url.removeprefix("http://").partition("/")
            target = {"job_name": job, "metrics_path": f"/{path}"}
            scrapes.append({**target, "static_configs": [{"targets": [host]}]})
        return {
            "global": {
                "scrape_interval": "1s",
                "scrape_timeout": "1s",
                "evaluation_interval": "1s",
            },
            "rule_files": [str(RULES)],
            "scrape_configs": scrapes,
        }

    async def get(self, path: str, **parameters: str) -> Any:
        """``data`` of an answer of the HTTP API; fails the test when there is an error."""
        async with self._session.get(f"{self.url}/api/v1/{path}", params=parameters) as response:
            content = await response.json()
        assert content["status"] == "success", f"{parameters}: {content.get('error')}"
        return content["data"]

    async def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that an expression gives now."""
        found: list[dict[str, Any]] = (await self.get("query", query=expression))["result"]
        return found
