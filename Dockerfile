# Images of this environment. The last stage, `judge`, is the default; docs/run.md shows how both are used.
#
#   docker build -t reasoning-gym-environment .                            # judge, score, tasks, report, ...
#   docker build -t reasoning-gym-environment:atropos --target atropos .   # also serve, process and run-api

FROM debian:trixie-slim AS system
# Debian keeps one version of each package, so none is pinned.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 ca-certificates tini \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log

# The compiler is for `pycosat`, of which there is no wheel. Later stages take /opt/environment alone.
FROM system AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
RUN python3 -m venv /opt/environment
ENV PATH=/opt/environment/bin:$PATH
# The dependencies are a layer of their own, which a change of the code does not build again.
COPY pyproject.toml constraints.txt ./
RUN python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')" > core.txt \
    && pip install --no-cache-dir --use-pep517 -r core.txt -c constraints.txt
COPY README.md LICENSE reasoning_gym_environment.py reasoning_gym_taskset.py ./
COPY demo demo
COPY reasoning_gym_testing reasoning_gym_testing
COPY reasoning_audit reasoning_audit
COPY reasoning_env reasoning_env
RUN pip install --no-cache-dir --no-deps .

FROM build AS build-atropos
RUN pip install --no-cache-dir --use-pep517 ".[atropos]" -c constraints.txt \
    && pip uninstall --yes pip

FROM build AS build-judge
RUN pip uninstall --yes pip

# Everything that a run writes lies below the home folder: evals, data_dumps, and caches of tokenizers.
FROM system AS user
RUN useradd --uid 10001 --home-dir /work --create-home --shell /usr/sbin/nologin reasoning
ENV PATH=/opt/environment/bin:$PATH HOME=/work PYTHONUNBUFFERED=1
WORKDIR /work
USER 10001:10001
# tini is process 1 and reaps orphans. With the judge as process 1, four workers stayed as zombies each time their fork
# server was killed.
ENTRYPOINT ["tini", "--", "reasoning-gym-environment"]

FROM user AS atropos
COPY --from=build-atropos /opt/environment /opt/environment
CMD ["serve"]

FROM user AS judge
COPY --from=build-judge /opt/environment /opt/environment
EXPOSE 8400
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import http.client; judge = http.client.HTTPConnection('127.0.0.1', 8400, timeout=4); judge.request('GET', '/health'); raise SystemExit(judge.getresponse().status != 200)"]
# An address beyond the container needs a token: docker run -e REASONING_JUDGE_TOKEN=... -p 8400:8400 IMAGE
CMD ["judge", "--host", "0.0.0.0"]
