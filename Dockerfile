# Two stages: the first builds an environment with what deploy/requirements.lock pins, the second
# holds that environment and nothing to build with.
#
#   docker build -t vllm-sluice .
#   docker run -p 8080:8080 -p 8081:8081 -e SLUICE_UPSTREAM_URLS=http://engine:8000 \
#     -e SLUICE_MAX_NUM_SEQS=256 vllm-sluice
#
# It writes nothing, so it runs with a read-only root file system.
ARG PYTHON_VERSION=3.13

FROM python:${PYTHON_VERSION}-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/build && python -m venv --without-pip /opt/sluice
WORKDIR /src
# Before the sources: a change to them does not install the pinned packages again.
COPY deploy/requirements.lock deploy/requirements-build.lock deploy/
RUN /opt/build/bin/pip install --no-deps --require-hashes -r deploy/requirements-build.lock \
    && /opt/build/bin/pip --python /opt/sluice/bin/python install --no-deps --require-hashes \
        -r deploy/requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY proxy proxy
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
    && /opt/build/bin/pip --python /opt/sluice/bin/python install --no-deps --no-index /dist/*.whl \
    && /opt/build/bin/pip --python /opt/sluice/bin/python check
COPY deploy/healthcheck.py /opt/sluice/healthcheck.py

FROM python:${PYTHON_VERSION}-slim
RUN groupadd --system --gid 10001 sluice \
    && useradd --system --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin sluice
COPY --from=build /opt/sluice /opt/sluice
ENV PATH=/opt/sluice/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    # Prometheus and the orchestrator's probes come from outside the container.
    SLUICE_ADMIN_HOST=0.0.0.0
# A number, so that an orchestrator can see that it is not root.
USER 10001:10001
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["python", "/opt/sluice/healthcheck.py"]
ENTRYPOINT ["sluice"]
CMD ["serve"]
