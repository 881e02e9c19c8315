package ackwell.kit;

import java.lang.reflect.Proxy;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.bookkeeper.client.AsyncCallback;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.PulsarMockBookKeeper;
import org.apache.bookkeeper.client.PulsarMockLedgerHandle;
import org.apache.bookkeeper.common.util.OrderedExecutor;
import org.apache.bookkeeper.meta.LedgerManager;
import org.apache.bookkeeper.versioning.LongVersion;
import org.apache.bookkeeper.versioning.Versioned;

/** Pulsar's own BookKeeper mock, with the two calls of 4.2 that the mock of 4.0 lacks. */
final class BookKeeperInMemory extends PulsarMockBookKeeper {
    BookKeeperInMemory(OrderedExecutor executor, long firstLedgerId) throws Exception {
        super(executor);
        ((AtomicLong) CursorDump.field(this, "sequence")).set(firstLedgerId);
    }

    /** A new ledger that holds these entries. */
    LedgerHandle ledgerOf(byte[]... entries) throws Exception {
        LedgerHandle ledger = createLedger(1, 1, 1, DigestType.CRC32C, new byte[0]);
        for (byte[] entry : entries) {
            ledger.addEntry(entry);
        }
        return ledger;
    }

    /** The newest entry of a ledger. */
    byte[] lastEntry(long ledgerId) throws Exception {
        LedgerHandle ledger = openLedger(ledgerId, BookKeeper.DigestType.CRC32C, new byte[0]);
        long last = ledger.getLastAddConfirmed();
        return ledger.readEntries(last, last).nextElement().getEntry();
    }

    @Override
    public void asyncOpenLedger(long id, DigestType digest, byte[] password,
            AsyncCallback.OpenCallback callback, Object context, boolean keepUpdateMetadata) {
        asyncOpenLedger(id, digest, password, callback, context);
    }

    @Override
    public LedgerManager getLedgerManager() {
        return (LedgerManager) Proxy.newProxyInstance(BookKeeperInMemory.class.getClassLoader(),
                new Class<?>[] {LedgerManager.class},
                (proxy, method, arguments) -> method.getName().equals("readLedgerMetadata")
                        ? metadataOf((Long) arguments[0]) : null);
    }

    private CompletableFuture<Object> metadataOf(long ledgerId) {
        PulsarMockLedgerHandle ledger = getLedgerMap().get(ledgerId);
        return ledger == null
                ? CompletableFuture.failedFuture(new BKException.BKNoSuchLedgerExistsOnMetadataServerException())
                : CompletableFuture.completedFuture(
                        new Versioned<>(ledger.getLedgerMetadata(), new LongVersion(0)));
    }
}
