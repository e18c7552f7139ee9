"""The mesh's side: what Envoy, Istio and Envoy Gateway are told."""
