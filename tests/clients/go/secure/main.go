// franz-go and sarama on secured listeners: jobs as programs/secure_client.py describes them.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"barnabas.tests/clients/exchange"
	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	pace     = 30 * time.Millisecond
	patience = 20 * time.Second
)

type job struct {
	Name, Topic, Bootstrap, Protocol, Mechanism, User, Password, Token, Trusted, Identity, Stop string
	Records                                                                                     *int
}

// client is a producer and a consumer of a job; an error of a record is returned by a later call.
type client interface {
	send(value string) error
	flush() error
	// read returns what was read within the pace.
	read() ([]string, error)
}

func (j job) tls() (*tls.Config, error) {
	if !strings.HasSuffix(j.Protocol, "SSL") {
		return nil, nil
	}
	trusted, err := os.ReadFile(j.Trusted)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(trusted)
	config := &tls.Config{RootCAs: pool}
	if j.Identity != "" {
		identity, err := tls.LoadX509KeyPair(j.Identity, j.Identity)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{identity}
	}
	return config, nil
}

type franz struct {
	client *kgo.Client
	topic  string
	failed chan error
}

func (j job) franzMechanism() sasl.Mechanism {
	switch j.Mechanism {
	case "OAUTHBEARER":
		return oauth.Auth{Token: j.Token}.AsMechanism()
	case "PLAIN":
		return plain.Auth{User: j.User, Pass: j.Password}.AsMechanism()
	}
	return scram.Auth{User: j.User, Pass: j.Password}.AsSha512Mechanism()
}

func connectFranz(j job) (client, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(j.Bootstrap),
		kgo.ClientID(j.Name),
		kgo.RecordDeliveryTimeout(patience),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{j.Topic: {0: kgo.NewOffset().AtStart()}}),
	}
	config, err := j.tls()
	if err != nil {
		return nil, err
	}
	if config != nil {
		options = append(options, kgo.DialTLSConfig(config))
	}
	if j.Mechanism != "" {
		options = append(options, kgo.SASL(j.franzMechanism()))
	}
	connected, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	if err := connected.Ping(context.Background()); err != nil {
		return nil, err
	}
	return &franz{connected, j.Topic, make(chan error, 1)}, nil
}

func (f *franz) send(value string) error {
	f.client.Produce(context.Background(), &kgo.Record{Topic: f.topic, Value: []byte(value)}, func(_ *kgo.Record, err error) {
		if err != nil {
			select {
			case f.failed <- err:
			default:
			}
		}
	})
	return failure(f.failed)
}

func (f *franz) flush() error {
	return errors.Join(f.client.Flush(context.Background()), failure(f.failed))
}

func (f *franz) read() ([]string, error) {
	soon, cancel := context.WithTimeout(context.Background(), pace)
	defer cancel()
	fetches := f.client.PollFetches(soon)
	var values []string
	fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	var failed error
	fetches.EachError(func(_ string, _ int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) {
			failed = err
		}
	})
	return values, failed
}

// failure returns an error that came, if one did.
func failure(failed chan error) error {
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// conversation is the SCRAM client that sarama lets its users provide: franz-go's.
type conversation struct {
	session sasl.Session
	first   []byte
	done    bool
}

func (c *conversation) Begin(user, password, _ string) (err error) {
	mechanism := scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	c.session, c.first, err = mechanism.Authenticate(context.Background(), "")
	return err
}

func (c *conversation) Step(challenge string) (string, error) {
	if challenge == "" {
		return string(c.first), nil
	}
	done, response, err := c.session.Challenge([]byte(challenge))
	c.done = done
	return string(response), err
}

func (c *conversation) Done() bool { return c.done }

type token string

func (t token) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(t)}, nil
}

type saramaClient struct {
	producer           sarama.AsyncProducer
	partition          sarama.PartitionConsumer
	topic              string
	sent, acknowledged int
}

func connectSarama(j job) (client, error) {
	config := sarama.NewConfig()
	config.ClientID = j.Name
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	config.Consumer.Return.Errors = true
	settings, err := j.tls()
	if err != nil {
		return nil, err
	}
	config.Net.TLS.Enable, config.Net.TLS.Config = settings != nil, settings
	if j.Mechanism != "" {
		config.Net.SASL.Enable = true
		config.Net.SASL.Mechanism = sarama.SASLMechanism(j.Mechanism)
		config.Net.SASL.User, config.Net.SASL.Password = j.User, j.Password
		config.Net.SASL.TokenProvider = token(j.Token)
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{} }
	}
	connected, err := sarama.NewClient([]string{j.Bootstrap}, config)
	if err != nil {
		return nil, err
	}
	producer, err := sarama.NewAsyncProducerFromClient(connected)
	if err != nil {
		return nil, err
	}
	consumer, err := sarama.NewConsumerFromClient(connected)
	if err != nil {
		return nil, err
	}
	partition, err := consumer.ConsumePartition(j.Topic, 0, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	return &saramaClient{producer: producer, partition: partition, topic: j.Topic}, nil
}

func (s *saramaClient) send(value string) error {
	message := &sarama.ProducerMessage{Topic: s.topic, Value: sarama.StringEncoder(value)}
	s.sent++
	for {
		select {
		case s.producer.Input() <- message:
			return nil
		case <-s.producer.Successes():
			s.acknowledged++
		case err := <-s.producer.Errors():
			return err
		}
	}
}

func (s *saramaClient) flush() error {
	late := time.After(patience)
	for s.acknowledged < s.sent {
		select {
		case <-s.producer.Successes():
			s.acknowledged++
		case err := <-s.producer.Errors():
			return err
		case <-late:
			return errors.New("records were not acknowledged")
		}
	}
	return nil
}

func (s *saramaClient) read() ([]string, error) {
	late := time.After(pace)
	var values []string
	for {
		select {
		case message := <-s.partition.Messages():
			values = append(values, string(message.Value))
		case <-s.producer.Successes():
			s.acknowledged++
		case err := <-s.producer.Errors():
			return values, err
		case <-late:
			return values, nil
		}
	}
}

var printing sync.Mutex

func answer(value any) {
	printing.Lock()
	defer printing.Unlock()
	exchange.Answer(value)
}

func (j job) hasNext(number int) bool {
	if j.Records != nil {
		return number < *j.Records
	}
	_, err := os.Stat(j.Stop)
	return err != nil
}

func (j job) run(connect func(job) (client, error)) ([]string, error) {
	values := []string{}
	connected, err := connect(j)
	if err != nil {
		return values, err
	}
	read := func() error {
		more, err := connected.read()
		if len(values) == 0 && len(more) > 0 {
			answer(map[string]any{"job": j.Name, "running": true})
		}
		values = append(values, more...)
		return err
	}
	sent := 0
	for ; j.hasNext(sent); sent++ {
		if err := connected.send(strconv.Itoa(sent)); err != nil {
			return values, err
		}
		if err := read(); err != nil {
			return values, err
		}
	}
	if err := connected.flush(); err != nil {
		return values, err
	}
	for late := time.Now().Add(patience); len(values) < sent && time.Now().Before(late); {
		if err := read(); err != nil {
			return values, err
		}
	}
	return values, nil
}

func main() {
	connect := map[string]func(job) (client, error){"franz-go": connectFranz, "sarama": connectSarama}[os.Args[1]]
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	lines.Scan()
	var jobs []job
	exchange.Check(json.Unmarshal(lines.Bytes(), &jobs))
	var all sync.WaitGroup
	for _, one := range jobs {
		all.Go(func() {
			values, err := one.run(connect)
			end := map[string]any{"job": one.Name, "values": values, "error": nil}
			if err != nil {
				end["error"] = fmt.Sprint(err)
			}
			answer(end)
		})
	}
	all.Wait()
}
