"""An optional xDS server: endpoint health by EDS, canary weights by RTDS."""

from extproc.signals.xds.server import XdsServer
from extproc.signals.xds.topology import Cluster, Endpoint, Hard, Topology, Weight

__all__ = ["Cluster", "Endpoint", "Hard", "Topology", "Weight", "XdsServer"]
