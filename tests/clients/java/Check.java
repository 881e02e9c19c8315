import java.util.*;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.*;
import org.apache.pulsar.client.api.transaction.Transaction;

/** Checks of a broker with the Java client: prints a line for each, and ends with code 1 if one failed. */
public class Check {
    interface Body { void run() throws Exception; }

    static int failed = 0;

    static void check(String name, Body body) {
        try {
            body.run();
            System.out.println("ok     " + name);
        } catch (Throwable error) {
            failed++;
            System.out.println("failed " + name + ": " + error);
        }
    }

    static void equal(Object wanted, Object got) {
        if (!Objects.equals(wanted, got)) throw new AssertionError("expected " + wanted + ", got " + got);
    }

    static Message<String> next(Consumer<String> consumer) throws Exception {
        Message<String> message = consumer.receive(5, TimeUnit.SECONDS);
        if (message == null) throw new AssertionError("nothing came");
        return message;
    }

    public static void main(String[] arguments) throws Exception {
        try (PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).enableTransaction(true).build()) {
            check("publish, receive and acknowledge", () -> {
                Consumer<String> consumer = subscribe(client, "j1", SubscriptionType.Shared);
                MessageId sent = client.newProducer(Schema.STRING).topic("j1").create().send("a");
                Message<String> message = next(consumer);
                equal("a", message.getValue());
                consumer.acknowledge(message);
            });
            check("a negative acknowledgment brings a message again", () -> {
                Consumer<String> consumer = client.newConsumer(Schema.STRING).topic("j2").subscriptionName("s")
                    .subscriptionType(SubscriptionType.Shared).negativeAckRedeliveryDelay(50, TimeUnit.MILLISECONDS).subscribe();
                client.newProducer(Schema.STRING).topic("j2").create().send("a");
                consumer.negativeAcknowledge(next(consumer));
                equal(1, next(consumer).getRedeliveryCount());
            });
            check("a batch is acknowledged in part", () -> {
                Consumer<String> consumer = client.newConsumer(Schema.STRING).topic("j3").subscriptionName("s")
                    .subscriptionType(SubscriptionType.Shared).enableBatchIndexAcknowledgment(true).subscribe();
                Producer<String> producer = client.newProducer(Schema.STRING).topic("j3")
                    .batchingMaxPublishDelay(1, TimeUnit.SECONDS).batchingMaxMessages(4).create();
                for (int i = 0; i < 4; i++) producer.sendAsync("m" + i);
                producer.flush();
                for (int i = 0; i < 4; i++) {
                    Message<String> message = next(consumer);
                    if (i % 2 == 0) consumer.acknowledge(message);
                }
                consumer.close();
                Consumer<String> again = subscribe(client, "j3", SubscriptionType.Shared);
                equal(Set.of("m1", "m3"), Set.of(next(again).getValue(), next(again).getValue()));
            });
            check("messages of one key keep their order and their consumer", () -> {
                Consumer<String> one = subscribe(client, "j4", SubscriptionType.Key_Shared);
                Consumer<String> two = subscribe(client, "j4", SubscriptionType.Key_Shared);
                Producer<String> producer = client.newProducer(Schema.STRING).topic("j4").enableBatching(false).create();
                for (int i = 0; i < 20; i++) producer.newMessage().key("k").value("" + i).send();
                Message<String> first = one.receive(500, TimeUnit.MILLISECONDS);
                Consumer<String> owner = first == null ? two : one;
                for (int i = first == null ? 0 : 1; i < 20; i++) equal("" + i, next(owner).getValue());
            });
            check("a reader begins at the earliest message, and a seek goes back", () -> {
                Producer<String> producer = client.newProducer(Schema.STRING).topic("j5").enableBatching(false).create();
                MessageId second = null;
                for (int i = 0; i < 3; i++) {
                    MessageId sent = producer.send("" + i);
                    if (i == 1) second = sent;
                }
                Reader<String> reader = client.newReader(Schema.STRING).topic("j5").startMessageId(MessageId.earliest).create();
                for (int i = 0; i < 3; i++) equal("" + i, reader.readNext(5, TimeUnit.SECONDS).getValue());
                equal(false, reader.hasMessageAvailable());
                reader.seek(second);
                equal("2", reader.readNext(5, TimeUnit.SECONDS).getValue());
            });
            check("a committed transaction delivers, an aborted one does not", () -> {
                Consumer<String> consumer = subscribe(client, "j6", SubscriptionType.Shared);
                Producer<String> producer = client.newProducer(Schema.STRING).topic("j6").sendTimeout(0, TimeUnit.SECONDS).create();
                Transaction aborted = begin(client);
                producer.newMessage(aborted).value("aborted").send();
                aborted.abort().get();
                Transaction committed = begin(client);
                producer.newMessage(committed).value("committed").send();
                committed.commit().get();
                equal("committed", next(consumer).getValue());
            });
            check("an acknowledgment in an aborted transaction does not count", () -> {
                Consumer<String> consumer = subscribe(client, "j7", SubscriptionType.Shared);
                client.newProducer(Schema.STRING).topic("j7").create().send("a");
                Transaction transaction = begin(client);
                consumer.acknowledgeAsync(next(consumer).getMessageId(), transaction).get();
                transaction.abort().get();
                equal("a", next(consumer).getValue());
            });
            check("a pattern finds the topics it names", () -> {
                client.newProducer(Schema.STRING).topic("j8-a").create().send("a");
                Consumer<String> consumer = client.newConsumer(Schema.STRING).topicsPattern("persistent://public/default/j8-.*")
                    .subscriptionName("s").subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
                equal("a", next(consumer).getValue());
            });
        }
        System.exit(failed == 0 ? 0 : 1);
    }

    static Transaction begin(PulsarClient client) throws Exception {
        return client.newTransaction().withTransactionTimeout(1, TimeUnit.MINUTES).build().get();
    }

    static Consumer<String> subscribe(PulsarClient client, String topic, SubscriptionType type) throws Exception {
        return client.newConsumer(Schema.STRING).topic(topic).subscriptionName("s").subscriptionType(type)
            .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
    }
}
