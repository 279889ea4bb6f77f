# syntax=docker/dockerfile:1
# The image of the scheduler: Python and this library, no shell and no package manager, as a user without rights.
#
#     docker build -t REGISTRY/gangsched:VERSION .
#
# Both stages are of Debian 12, so the interpreter that a virtual environment points to is the same in both.
FROM debian:12-slim AS build
# versions are those of Debian 12, and nothing of this stage but the environment is in the image
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --no-install-recommends --yes gcc libc6-dev python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY pyproject.toml setup.py README.md LICENSE ./
COPY src src
# pip-steps: a test runs these lines in an environment of its own
RUN python3 -m venv /opt/gangsched \
    && GANGSCHED_REQUIRE_EXTENSIONS=1 /opt/gangsched/bin/pip install --no-cache-dir '.[cli,kubernetes-fast,metrics]' \
    && /opt/gangsched/bin/python -m compileall -q /opt/gangsched/lib \
    && /opt/gangsched/bin/pip uninstall --yes pip setuptools

FROM gcr.io/distroless/python3-debian12:nonroot
COPY --from=build /opt/gangsched /opt/gangsched
# The root file system may be read-only: nothing is written but temporary files of /tmp.
ENV PATH=/opt/gangsched/bin:/usr/bin PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 10259 10260
ENTRYPOINT ["/opt/gangsched/bin/python", "-m", "gangsched"]
CMD ["run"]
