const assert = require('node:assert')
const test = require('node:test')
const { Kafka, logLevel } = require('kafkajs')

test('orders arrive in their order', async () => {
  const brokers = process.env.KAFKA_BOOTSTRAP_SERVERS.split(',')
  const kafka = new Kafka({ brokers, logLevel: logLevel.NOTHING })
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic: 'orders', numPartitions: 1 }] })
  await admin.disconnect()

  const producer = kafka.producer()
  await producer.connect()
  const messages = ['one', 'two', 'three'].map(value => ({ key: 'customer', value }))
  await producer.send({ topic: 'orders', messages })
  await producer.disconnect()

  const consumer = kafka.consumer({ groupId: 'billing' })
  await consumer.connect()
  await consumer.subscribe({ topic: 'orders', fromBeginning: true })
  const received = []
  await new Promise((resolve, reject) => {
    const eachMessage = async ({ message }) => {
      received.push(message.value.toString())
      if (received.length === 3) resolve()
    }
    consumer.run({ eachMessage }).catch(reject)
  })
  await consumer.disconnect()
  assert.deepStrictEqual(received, ['one', 'two', 'three'])
})
