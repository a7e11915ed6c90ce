// kafkajs, speaking the exchange of programs/exchange.py.
const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')

CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')

const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy }

const connect = bootstrap => new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING })

const text = content => (content === null || content === undefined ? null : content.toString())

function show(partition, message) {
  const headers = Object.entries(message.headers ?? {}).map(([name, value]) => [name, text(value)])
  console.log(JSON.stringify({
    partition,
    offset: Number(message.offset),
    timestamp: Number(message.timestamp),
    key: text(message.key),
    value: text(message.value),
    headers,
  }))
}

async function produce(bootstrap, topic, codec) {
  const lines = require('fs').readFileSync(0, 'utf8').trim().split('\n')
  const messages = lines.map(JSON.parse).map(({ key, value, headers, timestamp }) => ({
    key, value, headers: Object.fromEntries(headers), timestamp: String(timestamp),
  }))
  const producer = connect(bootstrap).producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  await producer.send({ topic, messages, compression: CODECS[codec] })
  await producer.disconnect()
}

async function consume(bootstrap, topic, count) {
  const consumer = connect(bootstrap).consumer({ groupId: `${topic}-reader`, maxWaitTimeInMs: 100 })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  let left = Number(count)
  await new Promise((resolve, reject) => consumer.run({
    eachMessage: async ({ partition, message }) => {
      if (left > 0) show(partition, message)
      if (--left === 0) resolve()
    },
  }).catch(reject))
  await consumer.disconnect()
}

async function member(bootstrap, topic, groupId) {
  const consumer = connect(bootstrap).consumer({
    groupId,
    sessionTimeout: 1500,
    heartbeatInterval: 300,
    rebalanceTimeout: 10000,
    maxWaitTimeInMs: 100,
  })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({ autoCommitThreshold: 1, eachMessage: async ({ partition, message }) => show(partition, message) })
  await new Promise(resolve => process.on('SIGTERM', resolve))
  await consumer.disconnect()
}

async function admin(bootstrap, topic) {
  const client = connect(bootstrap).admin()
  await client.connect()
  const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
  const retention = async () => {
    const described = await client.describeConfigs({ resources: [{ ...resource, configNames: ['retention.ms'] }] })
    return described.resources[0].configEntries[0].configValue
  }
  const partitions = async () => (await client.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length
  const listed = async () => (await client.listTopics()).includes(topic)
  const created = { topic, numPartitions: 2, configEntries: [{ name: 'retention.ms', value: '86400000' }] }
  await client.createTopics({ topics: [created] })
  const answer = {
    refused: !(await client.createTopics({ topics: [created] })),
    listed: await listed(),
    partitions: await partitions(),
    retention_created: await retention(),
  }
  await client.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
  answer.partitions_added = await partitions()
  await client.alterConfigs({ resources: [{ ...resource, configEntries: [{ name: 'retention.ms', value: '604800000' }] }] })
  answer.retention_altered = await retention()
  await client.deleteTopics({ topics: [topic] })
  answer.listed_deleted = await listed()
  console.log(JSON.stringify(answer))
  await client.disconnect()
}

async function transactions(bootstrap, transactionalId, timeout, groupId, input) {
  const client = connect(bootstrap)
  const producer = client.producer({
    transactionalId, idempotent: true, maxInFlightRequests: 1, transactionTimeout: Number(timeout),
  })
  const consumers = []
  let transaction
  let isNew = false
  const send = (topic, partition, value) => transaction.send({ topic, messages: [{ partition, value }] })

  async function read(count) {
    const consumer = client.consumer({ groupId, maxWaitTimeInMs: 100 })
    consumers.push(consumer)
    await consumer.connect()
    await consumer.subscribe({ topic: input, fromBeginning: true })
    const messages = []
    await new Promise((resolve, reject) => consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        if (messages.length < count) messages.push({ partition, ...message })
        if (messages.length === count) resolve()
      },
    }).catch(reject))
    return messages
  }

  const steps = {
    // The first transaction of a producer initializes it.
    init: async () => {
      await producer.connect()
      transaction = await producer.transaction()
      isNew = true
    },
    begin: async () => {
      if (!isNew) transaction = await producer.transaction()
      isNew = false
    },
    send: async (...record) => { await send(...record) },
    pipe: async (count, topic) => {
      const messages = await read(count)
      for (const { value } of messages) await send(topic, 0, value)
      const { partition, offset } = messages[messages.length - 1]
      const partitions = [{ partition, offset: String(Number(offset) + 1) }]
      await transaction.sendOffsets({ consumerGroupId: groupId, topics: [{ topic: input, partitions }] })
      return messages.map(({ value }) => text(value))
    },
    commit: () => transaction.commit(),
    abort: () => transaction.abort(),
  }

  for await (const line of require('readline').createInterface({ input: process.stdin })) {
    const [step, ...values] = JSON.parse(line)
    try {
      console.log(JSON.stringify({ done: (await steps[step](...values)) ?? null }))
    } catch (error) {
      console.log(JSON.stringify({ error: String(error) }))
    }
  }
  for (const consumer of consumers) await consumer.disconnect()
  process.exit(0)
}

const [command, ...args] = process.argv.slice(2)
const commands = { produce, consume, member, admin, transactions }
commands[command](...args).catch(error => {
  console.error(error)
  process.exit(1)
})
