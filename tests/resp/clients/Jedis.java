// Jedis as it comes.
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.Response;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;

public class Client {
    static void check(boolean is, Object what) {
        if (!is) throw new AssertionError(what);
    }

    public static void main(String[] arguments) {
        String host = arguments[0];
        int port = Integer.parseInt(arguments[1]);
        try (RedisClient client = RedisClient.create(host, port)) {
            check(client.set("lake", "deep and cold", SetParams.setParams().ex(3600)).equals("OK"), "set");
            check(client.get("lake").equals("deep and cold"), "get");
            check(client.set("lake", "x", SetParams.setParams().nx()) == null, "set nx");
            check(client.mset("a", "1", "b", "2").equals("OK"), "mset");
            check(client.mget("a", "b").equals(List.of("1", "2")), "mget");
        }
        try (Jedis client = new Jedis(new HostAndPort(host, port)); Jedis other = new Jedis(host, port)) {
            Pipeline pipeline = client.pipelined();
            for (int number = 0; number < 300; number++) {
                pipeline.set("key:" + number, "" + number);
                pipeline.incr("n");
            }
            pipeline.sync();
            check(client.get("n").equals("300"), client.get("n"));
            Transaction transaction = client.multi();
            transaction.set("t", "1");
            Response<Long> sum = transaction.incr("t");
            transaction.exec();
            check(sum.get() == 2, sum.get());
            client.watch("t");
            other.incr("t");
            transaction = client.multi();
            transaction.set("t", "mine");
            check(transaction.exec() == null, "a key that was watched has changed");
            Set<String> found = new HashSet<>();
            String cursor = "0";
            do {
                var page = client.scan(cursor, new ScanParams().match("key:*").count(50));
                found.addAll(page.getResult());
                cursor = page.getCursor();
            } while (!cursor.equals("0"));
            check(found.size() == 300, found.size());
            try {
                client.lpush("list", "1");
                check(false, "there are no lists");
            } catch (JedisDataException error) {
                check(error.getMessage().contains("unknown command"), error);
            }
            client.set("by a client", "jedis");
        }
        System.out.println("ok");
    }
}
