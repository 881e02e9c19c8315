package ackwell.kit;

import java.io.File;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.proto.BookieServer;
import org.apache.pulsar.PulsarClusterMetadataSetup;
import org.apache.pulsar.zookeeper.LocalBookkeeperEnsemble;

/**
 * ZooKeeper and one bookie for the brokers of a cluster. Arguments: the bookie's configuration, a folder, the ports of
 * ZooKeeper and of the bookie. While the folder contains a file {@code suspend}, the bookie answers no request.
 */
public final class ClusterStore {
    private ClusterStore() {}

    public static void main(String[] arguments) throws Exception {
        ServerConfiguration configuration = new ServerConfiguration();
        configuration.loadConf(new File(arguments[0]).toURI().toURL());
        String folder = arguments[1];
        int zooKeeperPort = Integer.parseInt(arguments[2]);
        LocalBookkeeperEnsemble store = new LocalBookkeeperEnsemble(1, zooKeeperPort, Integer.parseInt(arguments[3]), folder + "/zookeeper",
                folder + "/bookkeeper", false, "127.0.0.1");
        store.startStandalone(configuration, false);
        String zooKeeper = "127.0.0.1:" + zooKeeperPort;
        PulsarClusterMetadataSetup.main(new String[] {
            "--cluster", "standalone", "--metadata-store", "zk:" + zooKeeper,
            "--configuration-metadata-store", "zk:" + zooKeeper,
            "--existing-bk-metadata-service-uri", "zk+null://" + zooKeeper + "/ledgers",
            "--web-service-url", "http://127.0.0.1:8080", "--broker-service-url", "pulsar://127.0.0.1:6650"});
        // A test waits for this file.
        new File(folder, "ready").createNewFile();
        File suspend = new File(folder, "suspend");
        BookieServer bookie = store.getBookies()[0];
        for (boolean suspended = false;; Thread.sleep(50)) {
            if (suspend.exists() != suspended) {
                suspended = !suspended;
                if (suspended) {
                    bookie.suspendProcessing();
                } else {
                    bookie.resumeProcessing();
                }
            }
        }
    }
}
