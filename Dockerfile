# The coordinator (by default) or any other command: docker run IMAGE worker ...
FROM python:3.12-slim AS build
WORKDIR /build
COPY pyproject.toml constraints.txt MANIFEST.in LICENSE README.md ./
COPY eventjobs ./eventjobs
COPY projections ./projections
COPY tools ./tools
RUN python -m venv /opt/eventjobs \
    && /opt/eventjobs/bin/pip install --no-cache-dir -c constraints.txt setuptools \
    && /opt/eventjobs/bin/pip install --no-cache-dir -c constraints.txt --no-build-isolation . \
    && /opt/eventjobs/bin/pip uninstall -y setuptools pip

FROM python:3.12-slim
COPY --from=build /opt/eventjobs /opt/eventjobs
RUN useradd --system --uid 10001 --user-group --no-create-home eventjobs \
    && install -d -o eventjobs -g eventjobs -m 0700 /data
ENV PATH=/opt/eventjobs/bin:$PATH PYTHONUNBUFFERED=1
USER eventjobs
WORKDIR /data
VOLUME /data
EXPOSE 8484
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8484/readyz', timeout=2)"]
ENTRYPOINT ["eventjobs"]
# Inside a container every address is listened on, and nobody is asked who they are: whoever reaches the published
# port controls the jobs. Publish it to 127.0.0.1, or keep it on a network of its own.
CMD ["serve", "--host", "0.0.0.0", "--port", "8484", "--data", "/data"]
