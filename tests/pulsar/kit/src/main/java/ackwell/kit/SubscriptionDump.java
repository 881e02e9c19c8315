package ackwell.kit;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.impl.ManagedCursorImpl;
import org.apache.pulsar.broker.service.Consumer;
import org.apache.pulsar.broker.service.Dispatcher;
import org.apache.pulsar.broker.service.Subscription;
import org.apache.pulsar.broker.service.persistent.AbstractPersistentDispatcherMultipleConsumers;
import org.apache.pulsar.broker.service.persistent.MessageRedeliveryController;
import org.apache.pulsar.broker.service.persistent.PersistentDispatcherSingleActiveConsumer;
import org.apache.pulsar.broker.service.persistent.PersistentSubscription;

/** What a subscription of the broker holds in memory: its cursor, its consumers, its dispatcher. */
final class SubscriptionDump {
    private SubscriptionDump() {}

    static Map<String, Object> of(Subscription subscription) throws Exception {
        Map<String, Object> dump = new LinkedHashMap<>();
        dump.put("cursor", CursorDump.of((ManagedCursorImpl) ((PersistentSubscription) subscription).getCursor()));
        List<Object> consumers = new ArrayList<>();
        for (Consumer consumer : subscription.getConsumers()) {
            consumers.add(of(consumer));
        }
        dump.put("consumers", consumers);
        dump.put("dispatcher", of(subscription.getDispatcher()));
        return dump;
    }

    private static Map<String, Object> of(Consumer consumer) throws Exception {
        Map<String, Object> dump = new LinkedHashMap<>();
        dump.put("id", consumer.consumerId());
        dump.put("name", consumer.consumerName());
        dump.put("permits", consumer.getAvailablePermits());
        dump.put("permitsWhileBlocked", CursorDump.field(consumer, "permitsReceivedWhileConsumerBlocked"));
        dump.put("unacked", consumer.getUnackedMessages());
        dump.put("blocked", consumer.isBlocked());
        dump.put("meanBatchSize", ((Number) CursorDump.field(consumer, "avgMessagesPerEntry")).doubleValue());
        List<long[]> pending = new ArrayList<>();
        if (consumer.getPendingAcks() != null) {
            consumer.getPendingAcks().forEach((ledgerId, entryId, remaining, hash) ->
                    pending.add(new long[] {ledgerId, entryId, remaining, hash}));
        }
        dump.put("pending", pending);
        return dump;
    }

    private static Map<String, Object> of(Dispatcher dispatcher) throws Exception {
        Map<String, Object> dump = new LinkedHashMap<>();
        if (dispatcher == null) {
            return dump;
        }
        dump.put("type", dispatcher.getType().name());
        dump.put("delayed", dispatcher.getNumberOfDelayedMessages());
        if (dispatcher instanceof PersistentDispatcherSingleActiveConsumer single) {
            dump.put("active", single.getActiveConsumer() == null ? null : single.getActiveConsumer().consumerId());
        }
        if (dispatcher instanceof AbstractPersistentDispatcherMultipleConsumers) {
            dump.put("unacked", CursorDump.field(dispatcher, "totalUnackedMessages"));
            dump.put("blocked", ((Integer) CursorDump.field(dispatcher, "blockedDispatcherOnUnackedMsgs")) == 1);
            dump.put("reading", CursorDump.field(dispatcher, "havePendingReplayRead"));
            Object queue = CursorDump.field(dispatcher, "redeliveryMessages");
            List<long[]> replay = new ArrayList<>();
            for (Position position : ((MessageRedeliveryController) queue)
                    .getMessagesToReplayNow(Integer.MAX_VALUE, any -> true)) {
                replay.add(CursorDump.pair(position));
            }
            dump.put("replay", replay);
        }
        return dump;
    }
}
