"""An application with FastAPI: it takes orders over HTTP, and writes them to a topic."""

import os
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaProducer
from fastapi import FastAPI


@asynccontextmanager
async def lifespan(app):
    async with AIOKafkaProducer(bootstrap_servers=os.environ["KAFKA_BOOTSTRAP_SERVERS"]) as producer:
        app.state.producer = producer
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{customer}")
async def order(customer: str, item: str):
    sent = await app.state.producer.send_and_wait("orders", item.encode(), key=customer.encode())
    return {"offset": sent.offset}
