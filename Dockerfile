# The images of docker-compose.yml: a broker, and (target `spark`) the PySpark jobs.
FROM python:3.12-slim AS broker
WORKDIR /opt/barnabas
COPY requirements/run.txt requirements/run.txt
RUN pip install --no-cache-dir --require-hashes -r requirements/run.txt
COPY . .
RUN pip install --no-cache-dir --no-deps .
RUN useradd --create-home barnabas && install -d -o barnabas /var/lib/barnabas
USER barnabas
VOLUME /var/lib/barnabas
EXPOSE 9092
STOPSIGNAL SIGTERM
ENTRYPOINT ["barnabas"]
# Settings from KAFKA_* and BARNABAS_* variables; by default data in the volume, 0.0.0.0:9092 advertised as localhost:9092.
ENV BARNABAS_CONTAINER=1
CMD ["serve"]

FROM broker AS spark
USER root
RUN apt-get update && apt-get install --yes --no-install-recommends default-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
COPY requirements/dev.txt requirements/dev.txt
RUN pip install --no-cache-dir --require-hashes -r requirements/dev.txt
RUN install -d -o barnabas /home/barnabas/delays
USER barnabas
# Spark writes where it is started; the jobs are found from there.
WORKDIR /home/barnabas
ENV PYTHONPATH=/opt/barnabas
ENTRYPOINT ["python", "-m"]
CMD ["spark_jobs.windows", "--help"]
