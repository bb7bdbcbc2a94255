import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Writes records of one partition, each in a batch of its own: BOOTSTRAP TOPIC RECORDS [TRANSACTIONAL_ID]. */
public class TinyBatches {
    public static void main(String[] args) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", args[0]);
        settings.put("linger.ms", 0);
        settings.put("batch.size", 1);
        settings.put("enable.idempotence", true);
        boolean transactional = args.length > 3;
        if (transactional) {
            settings.put("transactional.id", args[3]);
        }
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
            if (transactional) {
                producer.initTransactions();
            }
            int records = Integer.parseInt(args[2]);
            for (int number = 0; number < records; number++) {
                if (transactional && number % 50 == 0) {
                    producer.beginTransaction();
                }
                byte[] value = Integer.toString(number).getBytes();
                producer.send(new ProducerRecord<>(args[1], 0, ("k" + number % 7).getBytes(), value));
                if (transactional && number % 50 == 49) {
                    if (number % 150 == 149) {
                        producer.abortTransaction();
                    } else {
                        producer.commitTransaction();
                    }
                }
            }
            producer.flush();
        }
    }
}
