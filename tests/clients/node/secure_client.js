// kafkajs on secured listeners: jobs as programs/secure_client.py describes them.
const fs = require('fs')
const { Kafka, logLevel } = require('kafkajs')

const PACE_MS = 30
const PATIENCE_MS = 20000

function connect({ name, bootstrap, protocol, mechanism, user, password, token, trusted, identity }) {
  const settings = { brokers: [bootstrap], clientId: name, logLevel: logLevel.NOTHING, reauthenticationThreshold: 400 }
  if (protocol.endsWith('SSL')) {
    const own = identity ? fs.readFileSync(identity) : undefined
    settings.ssl = { ca: [fs.readFileSync(trusted)], key: own, cert: own }
  }
  if (mechanism === 'OAUTHBEARER') {
    settings.sasl = { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: token }) }
  } else if (mechanism) {
    settings.sasl = { mechanism: mechanism.toLowerCase(), username: user, password }
  }
  return new Kafka(settings)
}

const print = line => console.log(JSON.stringify(line))
const later = ms => new Promise(resolve => setTimeout(resolve, ms))

async function work(job, values) {
  const { name, topic, records, stop } = job
  const client = connect(job)
  const producer = client.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  const hasNext = number => (records === null ? !fs.existsSync(stop) : number < records)
  const consumer = client.consumer({ groupId: name, maxWaitTimeInMs: 100 })
  let failure = null
  consumer.on(consumer.events.CRASH, ({ payload }) => { failure ??= payload.error })
  let sent = 0
  for (; hasNext(sent) && !failure; sent++) {
    // One at a time: after a lost connection, kafkajs would send the later of two batches first.
    await producer.send({ topic, messages: [{ value: String(sent) }] })
    if (sent > 0) {
      await later(PACE_MS)
      continue
    }
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    await consumer.run({
      eachMessage: async ({ message }) => {
        values.push(message.value.toString())
        if (values.length === 1) print({ job: name, running: true })
      },
    })
  }
  const late = Date.now() + PATIENCE_MS
  while (values.length < sent && !failure && Date.now() < late) await later(PACE_MS)
  if (failure) throw failure
}

async function main() {
  const jobs = JSON.parse(fs.readFileSync(0, 'utf8'))
  await Promise.all(jobs.map(async job => {
    const values = []
    const error = await work(job, values).then(() => null, failure => `${failure.name}: ${failure.message}`)
    print({ job: job.name, values, error })
  }))
  process.exit(0)
}

main()
