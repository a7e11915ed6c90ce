// sarama, speaking the exchange.
package main

import (
	"context"
	"errors"
	"time"

	"barnabas.tests/clients/exchange"
	"github.com/IBM/sarama"
)

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

var assignors = map[string]sarama.BalanceStrategy{
	"range":      sarama.NewBalanceStrategyRange(),
	"roundrobin": sarama.NewBalanceStrategyRoundRobin(),
	"sticky":     sarama.NewBalanceStrategySticky(),
}

func configured() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	return config
}

func show(message *sarama.ConsumerMessage) {
	shown := exchange.Record{
		Partition: message.Partition,
		Offset:    message.Offset,
		Timestamp: message.Timestamp.UnixMilli(),
		Key:       exchange.Text(message.Key),
		Value:     exchange.Text(message.Value),
	}
	for _, header := range message.Headers {
		shown.Headers = append(shown.Headers, [2]string{string(header.Key), string(header.Value)})
	}
	exchange.Print(shown)
}

// encoder keeps null apart from the empty text.
func encoder(text *string) sarama.Encoder {
	if text == nil {
		return nil
	}
	return sarama.StringEncoder(*text)
}

func produce(bootstrap, topic, codec string, records []exchange.Record) {
	config := configured()
	config.Producer.Compression = codecs[codec]
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	config.Producer.Flush.Messages = len(records)
	config.Producer.Flush.Frequency = 50 * time.Millisecond
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	exchange.Check(err)
	var messages []*sarama.ProducerMessage
	for _, record := range records {
		message := &sarama.ProducerMessage{
			Topic:     topic,
			Key:       encoder(record.Key),
			Value:     encoder(record.Value),
			Timestamp: time.UnixMilli(record.Timestamp),
		}
		for _, header := range record.Headers {
			message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(header[0]), Value: []byte(header[1])})
		}
		messages = append(messages, message)
	}
	exchange.Check(producer.SendMessages(messages))
	exchange.Check(producer.Close())
}

func consume(bootstrap, topic string, count int) {
	consumer, err := sarama.NewConsumer([]string{bootstrap}, configured())
	exchange.Check(err)
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	exchange.Check(err)
	for ; count > 0; count-- {
		show(<-partition.Messages())
	}
	exchange.Check(consumer.Close())
}

type handler struct{}

func (handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			show(message)
			session.MarkMessage(message, "")
			session.Commit()
		case <-session.Context().Done():
			return nil
		}
	}
}

func member(stopped context.Context, bootstrap, topic, group, assignor, _ string) {
	config := configured()
	config.Consumer.Group.Session.Timeout = exchange.SessionTimeout
	config.Consumer.Group.Heartbeat.Interval = exchange.HeartbeatInterval
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{assignors[assignor]}
	consumers, err := sarama.NewConsumerGroup([]string{bootstrap}, group, config)
	exchange.Check(err)
	for stopped.Err() == nil {
		exchange.Check(consumers.Consume(stopped, []string{topic}, handler{}))
	}
	exchange.Check(consumers.Close())
}

func admin(bootstrap, topic string) {
	cluster, err := sarama.NewClusterAdmin([]string{bootstrap}, configured())
	exchange.Check(err)
	defer cluster.Close()

	retention := func() string {
		entries, err := cluster.DescribeConfig(sarama.ConfigResource{
			Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"}})
		exchange.Check(err)
		return entries[0].Value
	}
	topics := func() map[string]sarama.TopicDetail {
		listed, err := cluster.ListTopics()
		exchange.Check(err)
		return listed
	}
	listed := func() bool {
		_, has := topics()[topic]
		return has
	}

	day, week := "86400000", "604800000"
	created := &sarama.TopicDetail{
		NumPartitions: 2, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &day}}
	exchange.Check(cluster.CreateTopic(topic, created, false))
	answer := map[string]any{
		"refused":           errors.Is(cluster.CreateTopic(topic, created, false), sarama.ErrTopicAlreadyExists),
		"listed":            listed(),
		"partitions":        topics()[topic].NumPartitions,
		"retention_created": retention(),
	}
	exchange.Check(cluster.CreatePartitions(topic, 3, nil, false))
	answer["partitions_added"] = topics()[topic].NumPartitions
	exchange.Check(cluster.IncrementalAlterConfig(sarama.TopicResource, topic, map[string]sarama.IncrementalAlterConfigsEntry{
		"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &week}}, false))
	answer["retention_altered"] = retention()
	exchange.Check(cluster.DeleteTopic(topic))
	answer["listed_deleted"] = listed()
	exchange.Answer(answer)
}

type transactions struct {
	bootstrap, group, topic string
	config                  *sarama.Config
	producer                sarama.SyncProducer
	consumers               sarama.ConsumerGroup
}

func startTransactions(bootstrap, id string, timeout time.Duration, group, topic string) exchange.Transactions {
	config := configured()
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Transaction.ID = id
	config.Producer.Transaction.Timeout = timeout
	return &transactions{bootstrap: bootstrap, group: group, topic: topic, config: config}
}

func (t *transactions) Init() error {
	producer, err := sarama.NewSyncProducer([]string{t.bootstrap}, t.config)
	t.producer = producer
	return err
}

func (t *transactions) Begin() error { return t.producer.BeginTxn() }

func (t *transactions) Send(topic string, partition int32, value string) error {
	_, _, err := t.producer.SendMessage(
		&sarama.ProducerMessage{Topic: topic, Partition: partition, Value: sarama.StringEncoder(value)})
	return err
}

// collector passes on each message of a claim.
type collector struct {
	messages chan *sarama.ConsumerMessage
}

func (collector) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (collector) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (c collector) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			c.messages <- message
		case <-session.Context().Done():
			return nil
		}
	}
}

func (t *transactions) Pipe(count int, topic string) ([]string, error) {
	consumers, err := sarama.NewConsumerGroup([]string{t.bootstrap}, t.group, t.config)
	if err != nil {
		return nil, err
	}
	t.consumers = consumers
	read := collector{make(chan *sarama.ConsumerMessage, count)}
	go consumers.Consume(context.Background(), []string{t.topic}, read)
	var values []string
	for range count {
		message := <-read.messages
		values = append(values, string(message.Value))
		if err := t.Send(topic, 0, string(message.Value)); err != nil {
			return nil, err
		}
		if err := t.producer.AddMessageToTxn(message, t.group, nil); err != nil {
			return nil, err
		}
	}
	return values, nil
}

func (t *transactions) Commit() error { return t.producer.CommitTxn() }
func (t *transactions) Abort() error  { return t.producer.AbortTxn() }

func (t *transactions) Close() {
	if t.consumers != nil {
		exchange.Check(t.consumers.Close())
	}
}

func main() {
	exchange.Main(exchange.Client{
		Produce: produce, Consume: consume, Member: member, Admin: admin, Transactions: startTransactions})
}
