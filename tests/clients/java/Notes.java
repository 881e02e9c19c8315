import java.util.*;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.api.*;
import org.apache.pulsar.client.api.transaction.Transaction;

/**
 * Plays what only the Java clients can do, and prints what it sees: a real broker and the dev broker make it print
 * the same.
 */
public class Notes {
    interface Body { void run() throws Exception; }

    static PulsarClient client;
    static PulsarAdmin admin;
    static String topic;

    static void play(String name, Body body) {
        topic = "persistent://public/default/notes-" + name.replace(' ', '-');
        System.out.println("> # " + name);
        try {
            body.run();
        } catch (Throwable error) {
            System.out.println("> threw " + cause(error).getClass().getSimpleName());
        }
    }

    static Throwable cause(Throwable error) {
        return error instanceof ExecutionException && error.getCause() != null ? cause(error.getCause()) : error;
    }

    static void note(String what, Object value) { System.out.println("> " + what + ": " + value); }

    static void attempt(String what, Body body) {
        try {
            body.run();
            note(what, "ok");
        } catch (Throwable error) {
            Throwable cause = cause(error);
            note(what, cause.getClass().getSimpleName()
                + (cause instanceof PulsarAdminException refused ? " " + refused.getStatusCode() : ""));
        }
    }

    static ConsumerBuilder<String> consumer(SubscriptionType type) {
        return client.newConsumer(Schema.STRING).topic(topic).subscriptionName("s").subscriptionType(type)
            .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
            .negativeAckRedeliveryDelay(50, TimeUnit.MILLISECONDS).enableBatchIndexAcknowledgment(true)
            .acknowledgmentGroupTime(0, TimeUnit.MILLISECONDS);
    }

    static ProducerBuilder<String> producer() {
        return client.newProducer(Schema.STRING).topic(topic).enableBatching(false).sendTimeout(0, TimeUnit.SECONDS);
    }

    static List<Message<String>> rest(Consumer<String> consumer, int milliseconds) throws Exception {
        List<Message<String>> got = new ArrayList<>();
        for (Message<String> each; (each = consumer.receive(milliseconds, TimeUnit.MILLISECONDS)) != null;) got.add(each);
        return got;
    }

    static List<String> texts(Collection<Message<String>> messages) {
        return messages.stream().map(each -> each.getValue() + "/" + each.getRedeliveryCount()).sorted().toList();
    }

    static Transaction begin() throws Exception {
        return client.newTransaction().withTransactionTimeout(1, TimeUnit.MINUTES).build().get();
    }

    public static void main(String[] arguments) throws Exception {
        client = PulsarClient.builder().serviceUrl(arguments[0]).enableTransaction(true).build();
        admin = PulsarAdmin.builder().serviceHttpUrl(arguments[1]).build();
        play("retry letters", Notes::retryLetters);
        play("transactions that publish", Notes::transactionsThatPublish);
        play("transactions that acknowledge", Notes::transactionsThatAcknowledge);
        play("transactions on batches", Notes::transactionsOnBatches);
        play("cumulative in a transaction", Notes::cumulativeInATransaction);
        play("priorities", Notes::priorities);
        play("receipts", Notes::receipts);
        play("readers", Notes::readers);
        play("admin", Notes::admin);
        client.close();
        admin.close();
        System.exit(0);
    }

    static void retryLetters() throws Exception {
        Consumer<String> consumer = consumer(SubscriptionType.Shared).enableRetry(true)
            .deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(2).build()).subscribe();
        producer().create().newMessage().key("k").value("a").property("p", "1").send();
        for (int i = 0; i < 4; i++) {
            Message<String> message = consumer.receive(5, TimeUnit.SECONDS);
            note("got " + i, message == null ? null : message.getValue() + "/" + message.getRedeliveryCount() + " "
                + message.getProperty("RECONSUMETIMES") + " " + message.getKey() + " " + message.getProperty("p"));
            if (message == null) break;
            consumer.reconsumeLater(message, 300, TimeUnit.MILLISECONDS);
        }
        Consumer<String> dead = client.newConsumer(Schema.STRING).topic(topic + "-s-DLQ").subscriptionName("d")
            .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
        note("dead", texts(rest(dead, 2000)));
        note("topics", admin.topics().getList("public/default").stream().filter(each -> each.contains("retry-letters")).sorted().toList());
    }

    static void transactionsThatPublish() throws Exception {
        Consumer<String> consumer = consumer(SubscriptionType.Shared).subscribe();
        Producer<String> producer = producer().create();
        Transaction one = begin(), two = begin();
        producer.newMessage(one).value("one").send();
        producer.send("plain");
        producer.newMessage(two).value("two").send();
        note("while open", texts(rest(consumer, 700)));
        two.commit().get();
        note("while one is open", texts(rest(consumer, 700)));
        one.abort().get();
        note("then", texts(rest(consumer, 1000)));
        attempt("commit after abort", () -> one.commit().get());
        attempt("publish after commit", () -> producer.newMessage(two).value("late").send());
        Transaction three = client.newTransaction().withTransactionTimeout(1, TimeUnit.SECONDS).build().get();
        producer.newMessage(three).value("three").send();
        Thread.sleep(2500);
        producer.send("behind");
        note("after the time-out", texts(rest(consumer, 1500)));
        attempt("commit after the time-out", () -> three.commit().get());
    }

    static void transactionsThatAcknowledge() throws Exception {
        Consumer<String> consumer = consumer(SubscriptionType.Shared).subscribe();
        Producer<String> producer = producer().create();
        for (int i = 0; i < 4; i++) producer.send("m" + i);
        List<Message<String>> got = rest(consumer, 1000);
        Transaction one = begin(), two = begin();
        consumer.acknowledgeAsync(got.get(0).getMessageId(), one).get();
        consumer.acknowledgeAsync(got.get(1).getMessageId(), one).get();
        attempt("conflict", () -> consumer.acknowledgeAsync(got.get(0).getMessageId(), two).get());
        consumer.redeliverUnacknowledgedMessages();
        note("others", texts(rest(consumer, 1000)));
        one.commit().get();
        consumer.redeliverUnacknowledgedMessages();
        note("after commit", texts(rest(consumer, 1000)));
        consumer.acknowledgeAsync(got.get(2).getMessageId(), two).get();
        two.abort().get();
        note("after abort", texts(rest(consumer, 1500)).stream().map(each -> each.substring(0, 2)).distinct().toList());
        note("backlog", admin.topics().getStats(topic).getSubscriptions().get("s").getMsgBacklog());
    }

    static void transactionsOnBatches() throws Exception {
        Consumer<String> consumer = consumer(SubscriptionType.Exclusive).subscribe();
        Producer<String> producer = client.newProducer(Schema.STRING).topic(topic).batchingMaxMessages(4)
            .batchingMaxPublishDelay(1, TimeUnit.MINUTES).create();
        for (int i = 0; i < 4; i++) producer.sendAsync("m" + i);
        producer.flush();
        List<Message<String>> got = rest(consumer, 1000);
        Transaction one = begin();
        consumer.acknowledgeAsync(got.get(1).getMessageId(), one).get();
        consumer.acknowledgeAsync(got.get(2).getMessageId(), one).get();
        one.commit().get();
        consumer.close();
        Consumer<String> again = consumer(SubscriptionType.Exclusive).subscribe();
        note("after commit", texts(rest(again, 1500)));
    }

    static void cumulativeInATransaction() throws Exception {
        Consumer<String> consumer = consumer(SubscriptionType.Exclusive).subscribe();
        Producer<String> producer = producer().create();
        for (int i = 0; i < 5; i++) producer.send("m" + i);
        List<Message<String>> got = rest(consumer, 1000);
        Transaction one = begin(), two = begin();
        consumer.acknowledgeCumulativeAsync(got.get(2).getMessageId(), one).get();
        attempt("another", () -> consumer.acknowledgeCumulativeAsync(got.get(3).getMessageId(), two).get());
        one.abort().get();
        consumer.acknowledgeCumulativeAsync(got.get(1).getMessageId(), two).get();
        two.commit().get();
        consumer.close();
        Consumer<String> again = consumer(SubscriptionType.Exclusive).subscribe();
        note("again", texts(rest(again, 1500)));
    }

    static void priorities() throws Exception {
        Consumer<String> low = consumer(SubscriptionType.Shared).priorityLevel(1).receiverQueueSize(10).subscribe();
        Consumer<String> high = consumer(SubscriptionType.Shared).priorityLevel(0).receiverQueueSize(3).subscribe();
        Producer<String> producer = producer().create();
        for (int i = 0; i < 6; i++) producer.send("m" + i);
        note("high", rest(high, 800).size() >= 3);
        note("all", rest(low, 800).size() <= 3);
        topic = topic + "-failover";
        Consumer<String> second = consumer(SubscriptionType.Failover).consumerName("a").priorityLevel(1).subscribe();
        Consumer<String> first = consumer(SubscriptionType.Failover).consumerName("b").priorityLevel(0).subscribe();
        Thread.sleep(1500);
        producer().create().send("x");
        note("first", texts(rest(first, 1500)));
        note("second", texts(rest(second, 300)));
    }

    static void receipts() throws Exception {
        Consumer<String> consumer = consumer(SubscriptionType.Shared).isAckReceiptEnabled(true).subscribe();
        Producer<String> producer = producer().create();
        for (int i = 0; i < 3; i++) producer.send("m" + i);
        List<Message<String>> got = rest(consumer, 1000);
        for (Message<String> each : got) consumer.acknowledge(each);
        note("backlog", admin.topics().getStats(topic).getSubscriptions().get("s").getMsgBacklog());
        attempt("a second time", () -> consumer.acknowledge(got.get(0)));
        note("last", consumer.getLastMessageIds().size());
        attempt("cumulative", () -> consumer.acknowledgeCumulative(got.get(0)));
        consumer.unsubscribe();
        attempt("after unsubscribe", () -> consumer.receive(1, TimeUnit.SECONDS));
    }

    static void readers() throws Exception {
        Producer<String> producer = producer().create();
        List<MessageId> sent = new ArrayList<>();
        for (int i = 0; i < 4; i++) sent.add(producer.send("m" + i));
        for (MessageId start : List.of(MessageId.earliest, MessageId.latest, sent.get(1), sent.get(3))) {
            for (boolean inclusive : new boolean[] {false, true}) {
                ReaderBuilder<String> builder = client.newReader(Schema.STRING).topic(topic).startMessageId(start);
                Reader<String> reader = (inclusive ? builder.startMessageIdInclusive() : builder).create();
                List<String> read = new ArrayList<>();
                while (reader.hasMessageAvailable()) read.add(reader.readNext(2, TimeUnit.SECONDS).getValue());
                note((sent.contains(start) ? "m" + sent.indexOf(start) : start.equals(MessageId.earliest) ? "earliest" : "latest")
                    + " " + inclusive, read);
                reader.close();
            }
        }
        Reader<String> reader = client.newReader(Schema.STRING).topic(topic).startMessageFromRollbackDuration(1, TimeUnit.HOURS).create();
        note("rolled back", reader.hasMessageAvailable());
    }

    static void admin() throws Exception {
        admin.topics().createNonPartitionedTopic(topic);
        attempt("made twice", () -> admin.topics().createNonPartitionedTopic(topic));
        admin.topics().createSubscription(topic, "s", MessageId.earliest);
        Producer<String> producer = client.newProducer(Schema.STRING).topic(topic).batchingMaxMessages(3)
            .batchingMaxPublishDelay(1, TimeUnit.MINUTES).property("a", "b").create();
        for (int i = 0; i < 6; i++) producer.newMessage().key("k" + i).value("m" + i).property("i", "" + i).sendAsync();
        producer.flush();
        for (var each : admin.topics().peekMessages(topic, "s", 5)) {
            note("peeked", new String(each.getData()) + " " + each.getProperty("i"));
        }
        note("examined", new String(admin.topics().examineMessage(topic, "earliest", 2).getData()));
        note("last", admin.topics().getLastMessageId(topic).getClass().getSimpleName());
        note("subscriptions", admin.topics().getSubscriptions(topic));
        var stats = admin.topics().getStats(topic);
        note("stats", stats.getMsgInCounter() + " " + stats.getPublishers().size() + " "
            + stats.getSubscriptions().get("s").getMsgBacklog() + " " + stats.getSubscriptions().get("s").getType());
        var internal = admin.topics().getInternalStats(topic);
        note("internal", internal.numberOfEntries + " " + internal.state + " " + internal.cursors.keySet());
        admin.topics().skipMessages(topic, "s", 1);
        note("backlog", admin.topics().getStats(topic).getSubscriptions().get("s").getMsgBacklog());
        admin.topics().resetCursor(topic, "s", 0);
        note("backlog then", admin.topics().getStats(topic).getSubscriptions().get("s").getMsgBacklog());
        attempt("subscription of nobody", () -> admin.topics().skipAllMessages(topic, "nobody"));
        attempt("topic of nobody", () -> admin.topics().getStats(topic + "-nobody"));
        attempt("in use", () -> admin.topics().delete(topic));
        producer.close();
        admin.topics().unload(topic);
        attempt("deleted", () -> admin.topics().delete(topic));
        admin.topics().createPartitionedTopic(topic + "-p", 3);
        note("partitions", admin.topics().getPartitionedTopicMetadata(topic + "-p").partitions);
        note("partitioned", admin.topics().getPartitionedStats(topic + "-p", true).getPartitions().size());
        admin.topics().updatePartitionedTopic(topic + "-p", 4);
        attempt("fewer", () -> admin.topics().updatePartitionedTopic(topic + "-p", 2));
        admin.topics().deletePartitionedTopic(topic + "-p");
        note("namespaces", admin.namespaces().getNamespaces("public").contains("public/default"));
        admin.namespaces().createNamespace("public/notes");
        attempt("namespace twice", () -> admin.namespaces().createNamespace("public/notes"));
        attempt("no tenant", () -> admin.namespaces().createNamespace("nobody/notes"));
        admin.namespaces().setNamespaceMessageTTL("public/notes", 7);
        note("ttl", admin.namespaces().getNamespaceMessageTTL("public/notes"));
        attempt("namespace deleted", () -> admin.namespaces().deleteNamespace("public/notes"));
        note("tenants", admin.tenants().getTenants().contains("public"));
        note("clusters", admin.clusters().getClusters());
    }
}
