"""What Envoy versions lack. ``docs/envoy-versions.md`` has the measured table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class Feature(Enum):
    """Something that not every supported version has: since when, and what goes without it."""

    CLUSTER_METADATA = (
        (1, 37),
        "ext_proc cannot forward cluster metadata "
        "(metadata_options.cluster_metadata_forwarding_namespaces): units are named by host "
        "metadata and by `clusters` in the sidecar's configuration",
    )

    @property
    def since(self) -> tuple[int, int]:
        return self.value[0]

    @property
    def without(self) -> str:
        return self.value[1]


OLDEST, NEWEST = (1, 36), (1, 40)
"""The versions that the tests run."""


@dataclass(frozen=True, slots=True)
class Version:
    """A minor version of Envoy."""

    minor: tuple[int, int] = NEWEST

    @classmethod
    def parse(cls, text: str) -> Version:
        """Of "1.38" or "1.38.3". Raises ValueError."""
        found = re.fullmatch(r"v?(\d+)\.(\d+)(\.\d+)?", text)
        if found is None:
            raise ValueError(f"{text!r} is no Envoy version; write 1.38")
        minor = int(found[1]), int(found[2])
        if minor < OLDEST:
            raise ValueError(
                f"Envoy {text} is older than {OLDEST[0]}.{OLDEST[1]}, the oldest that is tested"
            )
        return cls(minor)

    def __str__(self) -> str:
        return f"{self.minor[0]}.{self.minor[1]}"

    def has(self, feature: Feature) -> bool:
        return self.minor >= feature.since

    @property
    def needed(self) -> str:
        """The oldest version that takes what is written for this one."""
        oldest = max([OLDEST, *(feature.since for feature in Feature if self.has(feature))])
        return f"{oldest[0]}.{oldest[1]}"

    @property
    def lacking(self) -> list[Feature]:
        """What it goes without."""
        return [feature for feature in Feature if not self.has(feature)]
