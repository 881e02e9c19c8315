// Checks of a broker with the Go client: prints a line for each, and ends with code 1 if one failed.
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/sirupsen/logrus"
)

var client pulsar.Client
var failed = 0

func check(name string, body func()) {
	defer func() {
		if problem := recover(); problem != nil {
			failed++
			fmt.Println("failed", name+":", problem)
		} else {
			fmt.Println("ok    ", name)
		}
	}()
	body()
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func equal(wanted, got any) {
	if fmt.Sprint(wanted) != fmt.Sprint(got) {
		panic(fmt.Sprintf("expected %v, got %v", wanted, got))
	}
}

func within(limit time.Duration) context.Context {
	made, cancel := context.WithTimeout(context.Background(), limit)
	time.AfterFunc(limit+time.Second, cancel)
	return made
}

func producer(topic string, batching bool) pulsar.Producer {
	return must(client.CreateProducer(pulsar.ProducerOptions{
		Topic: topic, DisableBatching: !batching, BatchingMaxPublishDelay: 100 * time.Millisecond, BatchingMaxMessages: 4,
	}))
}

func consumer(topic string, kind pulsar.SubscriptionType, change ...func(*pulsar.ConsumerOptions)) pulsar.Consumer {
	options := pulsar.ConsumerOptions{
		Topic: topic, SubscriptionName: "s", Type: kind,
		SubscriptionInitialPosition:    pulsar.SubscriptionPositionEarliest,
		NackRedeliveryDelay:            50 * time.Millisecond,
		EnableBatchIndexAcknowledgment: true,
	}
	for _, each := range change {
		each(&options)
	}
	return must(client.Subscribe(options))
}

func next(from pulsar.Consumer) pulsar.Message { return must(from.Receive(within(5 * time.Second))) }

func send(to pulsar.Producer, text string) pulsar.MessageID {
	return must(to.Send(context.Background(), &pulsar.ProducerMessage{Payload: []byte(text)}))
}

func nothing(from pulsar.Consumer) {
	if message, err := from.Receive(within(300 * time.Millisecond)); err == nil {
		panic("unexpected " + string(message.Payload()))
	}
}

func main() {
	quiet := logrus.New()
	quiet.SetLevel(logrus.FatalLevel)
	client = must(pulsar.NewClient(pulsar.ClientOptions{
		URL: os.Args[1], Logger: log.NewLoggerWithLogrus(quiet),
	}))
	check("publish, receive and acknowledge", func() {
		from := consumer("g1", pulsar.Shared)
		send(producer("g1", false), "a")
		message := next(from)
		equal("a", string(message.Payload()))
		if err := from.Ack(message); err != nil {
			panic(err)
		}
		nothing(from)
	})
	check("a negative acknowledgment brings a message again", func() {
		from := consumer("g2", pulsar.Shared)
		send(producer("g2", false), "a")
		from.Nack(next(from))
		equal(1, next(from).RedeliveryCount())
	})
	check("a batch is acknowledged in part", func() {
		from, to := consumer("g3", pulsar.Shared), producer("g3", true)
		for i := 0; i < 4; i++ {
			to.SendAsync(context.Background(), &pulsar.ProducerMessage{Payload: []byte(fmt.Sprint("m", i))}, func(pulsar.MessageID, *pulsar.ProducerMessage, error) {})
		}
		must(0, to.Flush())
		for i := 0; i < 4; i++ {
			if message := next(from); i%2 == 0 {
				must(0, from.Ack(message))
			}
		}
		time.Sleep(300 * time.Millisecond)
		from.Close()
		again := consumer("g3", pulsar.Shared)
		got := []string{string(next(again).Payload()), string(next(again).Payload())}
		sort.Strings(got)
		equal([]string{"m1", "m3"}, got)
		nothing(again)
	})
	check("a poisoned message reaches the dead letter topic", func() {
		from := consumer("g4", pulsar.Shared, func(options *pulsar.ConsumerOptions) {
			options.DLQ = &pulsar.DLQPolicy{MaxDeliveries: 2, DeadLetterTopic: "g4-dead"}
		})
		dead := consumer("g4-dead", pulsar.Shared)
		send(producer("g4", false), "a")
		from.Nack(next(from))
		from.Nack(next(from))
		equal("a", string(next(dead).Payload()))
	})
	check("a delayed message comes later", func() {
		from, to := consumer("g5", pulsar.Shared), producer("g5", false)
		must(to.Send(context.Background(), &pulsar.ProducerMessage{Payload: []byte("late"), DeliverAfter: 3 * time.Second}))
		send(to, "now")
		equal("now", string(next(from).Payload()))
		equal("late", string(next(from).Payload()))
	})
	check("a reader begins at the earliest message, and a seek goes back", func() {
		to := producer("g6", false)
		ids := []pulsar.MessageID{send(to, "0"), send(to, "1"), send(to, "2")}
		reader := must(client.CreateReader(pulsar.ReaderOptions{Topic: "g6", StartMessageID: pulsar.EarliestMessageID()}))
		for i := 0; i < 3; i++ {
			equal(fmt.Sprint(i), string(must(reader.Next(within(5*time.Second))).Payload()))
		}
		equal(false, reader.HasNext())
		must(0, reader.Seek(ids[1]))
		equal("2", string(must(reader.Next(within(5*time.Second))).Payload()))
	})
	check("messages of one key keep their order and their consumer", func() {
		one, two, to := consumer("g8", pulsar.KeyShared), consumer("g8", pulsar.KeyShared), producer("g8", false)
		for i := 0; i < 10; i++ {
			must(to.Send(context.Background(), &pulsar.ProducerMessage{Payload: []byte(fmt.Sprint(i)), Key: "k"}))
		}
		owner := two
		start := 0
		if message, err := one.Receive(within(500 * time.Millisecond)); err == nil {
			equal("0", string(message.Payload()))
			owner, start = one, 1
		}
		for i := start; i < 10; i++ {
			equal(fmt.Sprint(i), string(next(owner).Payload()))
		}
	})
	check("a pattern finds the topics it names", func() {
		send(producer("g9-a", false), "a")
		from := must(client.Subscribe(pulsar.ConsumerOptions{
			TopicsPattern: "persistent://public/default/g9-.*", SubscriptionName: "s",
			SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
		}))
		equal("a", string(next(from).Payload()))
	})
	check("a second exclusive consumer is refused", func() {
		consumer("g10", pulsar.Exclusive)
		if _, err := client.Subscribe(pulsar.ConsumerOptions{Topic: "g10", SubscriptionName: "s"}); err == nil {
			panic("nobody refused it")
		}
	})
	client.Close()
	if failed > 0 {
		os.Exit(1)
	}
}
