// Lettuce as it comes.
import io.lettuce.core.KeyValue;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.SetArgs;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

public class Client {
    static void check(boolean is, Object what) {
        if (!is) throw new AssertionError(what);
    }

    public static void main(String[] arguments) throws Exception {
        RedisClient client = RedisClient.create("redis://" + arguments[0] + ":" + arguments[1]);
        try (StatefulRedisConnection<String, String> connection = client.connect();
                StatefulRedisConnection<String, String> other = client.connect()) {
            RedisCommands<String, String> sync = connection.sync();
            check(sync.set("lake", "deep and cold", SetArgs.Builder.ex(3600)).equals("OK"), "set");
            check(sync.get("lake").equals("deep and cold"), "get");
            check(sync.set("lake", "x", SetArgs.Builder.nx()) == null, "set nx");
            check(sync.mset(Map.of("a", "1", "b", "2")).equals("OK"), "mset");
            List<KeyValue<String, String>> values = sync.mget("a", "none");
            check(values.get(0).getValue().equals("1") && values.get(1).isEmpty(), values);
            List<RedisFuture<Long>> sums = new ArrayList<>();
            for (int number = 0; number < 200; number++) sums.add(connection.async().incr("n"));
            for (int number = 0; number < 200; number++) check(sums.get(number).get() == number + 1, number);
            sync.multi();
            sync.set("t", "1");
            sync.incr("t");
            var done = sync.exec();
            check(!done.wasDiscarded() && (Long) done.get(1) == 2, done);
            sync.watch("t");
            other.sync().incr("t");
            sync.multi();
            sync.set("t", "mine");
            check(sync.exec().wasDiscarded(), "a key that was watched has changed");
            for (int number = 0; number < 300; number++) sync.set("key:" + number, "" + number);
            int count = 0;
            for (var keys = ScanIterator.scan(sync, ScanArgs.Builder.matches("key:*").limit(50)); keys.hasNext(); keys.next()) count++;
            check(count == 300, count);
            try {
                sync.lpush("list", "1");
                check(false, "there are no lists");
            } catch (io.lettuce.core.RedisCommandExecutionException error) {
                check(error.getMessage().contains("unknown command"), error);
            }
            sync.set("by a client", "lettuce");
        }
        client.shutdown();
        System.out.println("ok");
    }
}
