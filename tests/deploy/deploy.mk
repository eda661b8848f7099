# Tests of deploy/ and of the image, on the real things.  They need root on Debian, install what
# they use, and are no part of `test`.

.PHONY: test-docker test-deploy test-prometheus
test-docker: ## build the image and run it: podman and runc, then a real Docker engine
	@tests/docker/check.sh
	@tests/docker/engine.sh
test-deploy: $(B)/seqd ## deploy/ linted and run: HAProxy, Kubernetes' pod, compose, systemd
	@for part in lint scale_out kube compose systemd; do tests/deploy/$$part.sh $< || exit 1; done
test-prometheus: $(B)/seqd ## a real Prometheus scrapes; rules, alerts, the dashboard's queries
	@tests/deploy/prometheus.sh $<
