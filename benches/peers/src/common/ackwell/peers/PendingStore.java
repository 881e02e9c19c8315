package ackwell.peers;

/**
 * Common interface of every PendingAcksMap variant; one implementation is loaded per fork, so calls stay
 * monomorphic.
 */
public interface PendingStore {
    boolean add(long l, long e, int remaining, int hash);

    boolean contains(long l, long e);

    int remaining(long l, long e);

    boolean update(long l, long e, int delta);

    int removeGet(long l, long e);

    long forEachAll();

    long removeAllUpTo(long l, long e);

    long size();

    Object root();
}
