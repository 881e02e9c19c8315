package ackwell.kit;

import java.io.File;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.pulsar.PulsarClusterMetadataSetup;
import org.apache.pulsar.zookeeper.LocalBookkeeperEnsemble;

/**
 * ZooKeeper and one bookie for the brokers of a cluster. Arguments: the bookie's configuration, a folder, the ports of
 * ZooKeeper and of the bookie.
 */
public final class ClusterStore {
    private ClusterStore() {}

    public static void main(String[] arguments) throws Exception {
        ServerConfiguration configuration = new ServerConfiguration();
        configuration.loadConf(new File(arguments[0]).toURI().toURL());
        String folder = arguments[1];
        int zooKeeperPort = Integer.parseInt(arguments[2]);
        new LocalBookkeeperEnsemble(1, zooKeeperPort, Integer.parseInt(arguments[3]), folder + "/zookeeper",
                folder + "/bookkeeper", false, "127.0.0.1").startStandalone(configuration, false);
        String zooKeeper = "127.0.0.1:" + zooKeeperPort;
        PulsarClusterMetadataSetup.main(new String[] {
            "--cluster", "standalone", "--metadata-store", "zk:" + zooKeeper,
            "--configuration-metadata-store", "zk:" + zooKeeper,
            "--existing-bk-metadata-service-uri", "zk+null://" + zooKeeper + "/ledgers",
            "--web-service-url", "http://127.0.0.1:8080", "--broker-service-url", "pulsar://127.0.0.1:6650"});
        // A test waits for this file.
        new File(folder, "ready").createNewFile();
        Thread.currentThread().join();
    }
}
