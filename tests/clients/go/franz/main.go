// franz-go, speaking the exchange.
package main

import (
	"context"
	"errors"
	"os"
	"time"

	"barnabas.tests/clients/exchange"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

var assignors = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

// Client of the bearer of a delegation token, if the environment has one.
func connect(bootstrap string, options ...kgo.Opt) *kgo.Client {
	if id := os.Getenv("TOKEN_ID"); id != "" {
		token := scram.Auth{User: id, Pass: os.Getenv("TOKEN_HMAC"), IsToken: true}
		options = append(options, kgo.SASL(token.AsSha512Mechanism()))
	}
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(bootstrap))...)
	exchange.Check(err)
	return client
}

func show(record *kgo.Record) {
	shown := exchange.Record{
		Partition: record.Partition,
		Offset:    record.Offset,
		Timestamp: record.Timestamp.UnixMilli(),
		Key:       exchange.Text(record.Key),
		Value:     exchange.Text(record.Value),
	}
	for _, header := range record.Headers {
		shown.Headers = append(shown.Headers, [2]string{header.Key, string(header.Value)})
	}
	exchange.Print(shown)
}

func produce(bootstrap, topic, codec string, records []exchange.Record) {
	client := connect(bootstrap,
		kgo.ProducerBatchCompression(codecs[codec]), kgo.ProducerLinger(50*time.Millisecond), kgo.AllowAutoTopicCreation())
	defer client.Close()
	var sent []*kgo.Record
	for _, record := range records {
		made := &kgo.Record{
			Topic:     topic,
			Key:       exchange.Bytes(record.Key),
			Value:     exchange.Bytes(record.Value),
			Timestamp: time.UnixMilli(record.Timestamp),
		}
		for _, header := range record.Headers {
			made.Headers = append(made.Headers, kgo.RecordHeader{Key: header[0], Value: []byte(header[1])})
		}
		sent = append(sent, made)
	}
	exchange.Check(client.ProduceSync(context.Background(), sent...).FirstErr())
}

func consume(bootstrap, topic string, count int) {
	client := connect(bootstrap,
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	for count > 0 {
		fetches := client.PollRecords(context.Background(), count)
		exchange.Check(fetches.Err())
		fetches.EachRecord(show)
		count -= fetches.NumRecords()
	}
}

func member(stopped context.Context, bootstrap, topic, group, assignor, instance string) {
	static := []kgo.Opt{kgo.InstanceID(instance), kgo.SessionTimeout(exchange.StaticSessionTimeout)}
	if instance == "" {
		static = []kgo.Opt{kgo.SessionTimeout(exchange.SessionTimeout)}
	}
	client := connect(bootstrap, append(static,
		kgo.ConsumeTopics(topic),
		kgo.ConsumerGroup(group),
		kgo.Balancers(assignors[assignor]),
		kgo.HeartbeatInterval(exchange.HeartbeatInterval),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll())...)
	defer client.Close()
	for stopped.Err() == nil {
		fetches := client.PollFetches(stopped)
		fetches.EachRecord(show)
		// A commit that fails while the broker is gone is made up for by the next.
		_ = client.CommitUncommittedOffsets(context.Background())
		client.AllowRebalance()
	}
	exchange.Check(client.CommitUncommittedOffsets(context.Background()))
}

func admin(bootstrap, topic string) {
	client := kadm.NewClient(connect(bootstrap))
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	retention := func() string {
		configs, err := client.DescribeTopicConfigs(ctx, topic)
		exchange.Check(err)
		described, err := configs.On(topic, nil)
		exchange.Check(err)
		for _, config := range described.Configs {
			if config.Key == "retention.ms" {
				return config.MaybeValue()
			}
		}
		return ""
	}
	topics := func() kadm.TopicDetails {
		// Asking for what one may do asks the broker; otherwise the client answers from what it saw seconds ago.
		listed, err := client.ListTopics(kadm.WithAuthorizedOps(ctx))
		exchange.Check(err)
		return listed
	}

	day := "86400000"
	_, err := client.CreateTopic(ctx, 2, 1, map[string]*string{"retention.ms": &day}, topic)
	exchange.Check(err)
	_, again := client.CreateTopic(ctx, 2, 1, nil, topic)
	answer := map[string]any{
		"refused":           errors.Is(again, kerr.TopicAlreadyExists),
		"listed":            topics().Has(topic),
		"partitions":        len(topics()[topic].Partitions),
		"retention_created": retention(),
	}
	_, err = client.UpdatePartitions(ctx, 3, topic)
	exchange.Check(err)
	answer["partitions_added"] = len(topics()[topic].Partitions)
	week := "604800000"
	altered, err := client.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "retention.ms", Value: &week}}, topic)
	exchange.Check(err)
	exchange.Check(altered[0].Err)
	answer["retention_altered"] = retention()
	_, err = client.DeleteTopic(ctx, topic)
	exchange.Check(err)
	answer["listed_deleted"] = topics().Has(topic)
	exchange.Answer(answer)
}

// transactions is a session, which commits what it polled in its transactions.
type transactions struct {
	session *kgo.GroupTransactSession
}

func startTransactions(bootstrap, id string, timeout time.Duration, group, topic string) exchange.Transactions {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(bootstrap),
		kgo.TransactionalID(id),
		kgo.TransactionTimeout(timeout),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	exchange.Check(err)
	return &transactions{session}
}

func (t *transactions) Init() error {
	_, _, err := t.session.Client().ProducerID(context.Background())
	return err
}

func (t *transactions) Begin() error { return t.session.Begin() }

func (t *transactions) Send(topic string, partition int32, value string) error {
	record := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)}
	return t.session.ProduceSync(context.Background(), record).FirstErr()
}

func (t *transactions) Pipe(count int, topic string) ([]string, error) {
	var values []string
	for len(values) < count {
		fetches := t.session.PollRecords(context.Background(), count-len(values))
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	for _, value := range values {
		if err := t.Send(topic, 0, value); err != nil {
			return nil, err
		}
	}
	return values, nil
}

func (t *transactions) end(commit kgo.TransactionEndTry) error {
	committed, err := t.session.End(context.Background(), commit)
	if err == nil && committed != bool(commit) {
		return errors.New("the session was not ended as requested")
	}
	return err
}

func (t *transactions) Commit() error { return t.end(kgo.TryCommit) }
func (t *transactions) Abort() error  { return t.end(kgo.TryAbort) }
func (t *transactions) Close()        { t.session.Close() }

func main() {
	exchange.Main(exchange.Client{
		Produce: produce, Consume: consume, Member: member, Admin: admin, Transactions: startTransactions})
}
