# syntax=docker/dockerfile:1
# The sidecar as an image: non-root, works with a read-only root, no shell tools needed.
#   docker build -t semantic-extproc .
#   docker run --read-only --tmpfs /var/lib/semantic-extproc:uid=10001 -p 18080:18080 -p 18081:18081 semantic-extproc

# ---- The wheel, and a venv with it. Neither pip's cache nor the sources reach the last stage ----
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md ./
COPY extproc extproc
COPY envoy/standalone envoy/standalone
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheel . \
    && python -m venv /opt/semantic-extproc \
    && /opt/semantic-extproc/bin/pip install --no-cache-dir --disable-pip-version-check \
       "semantic-extproc[fleet] @ file://$(ls /wheel/*.whl)" \
    && /opt/semantic-extproc/bin/python -m compileall -q /opt/semantic-extproc/lib

# ---- What runs -----------------------------------------------------------------------------------
FROM python:3.11-slim-bookworm
LABEL org.opencontainers.image.title="semantic-extproc" \
      org.opencontainers.image.description="An Envoy ext_proc sidecar that notices when an LLM engine silently answers garbage"
# The state's folder belongs to the user: a fresh volume over it takes that over.
RUN groupadd --gid 10001 semantic \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent \
       --shell /usr/sbin/nologin semantic \
    && install -d -o 10001 -g 10001 -m 0700 /var/lib/semantic-extproc
COPY --from=build /opt/semantic-extproc /opt/semantic-extproc
COPY deploy/docker/extproc.yaml /etc/semantic-extproc/extproc.yaml
# STATE_DIRECTORY is where states and evidence are kept; nothing else is written.
ENV PATH=/opt/semantic-extproc/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    STATE_DIRECTORY=/var/lib/semantic-extproc
USER 10001:10001
EXPOSE 18080 18081
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=15s --retries=3 \
    CMD ["semantic-extproc", "health"]
ENTRYPOINT ["semantic-extproc"]
CMD ["serve", "--config", "/etc/semantic-extproc/extproc.yaml"]
