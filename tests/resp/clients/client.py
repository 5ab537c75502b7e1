"""redis-py as it comes: RESP3, pipelines that are transactions."""

import sys
import threading

import redis

client = redis.Redis(host=sys.argv[1], port=int(sys.argv[2]))
assert client.ping()
assert client.set("lake", "deep and cold", ex=3600) and client.get("lake") == b"deep and cold"
assert 3590 <= client.ttl("lake") <= 3600
assert client.set("lake", "x", nx=True) is None and client.set("none", "x", xx=True) is None
assert client.mset({"a": 1, "b": 2}) and client.mget("a", "b", "none") == [b"1", b"2", None]
assert client.incr("n", 5) == 5 and client.incrbyfloat("f", 0.5) == 0.5
assert client.delete("a", "b", "none") == 2 and client.exists("lake", "n") == 2
assert client.expire("n", 100) and client.persist("n")

with client.pipeline() as pipe:
    assert pipe.set("t", 1).incr("t").get("t").execute() == [True, 2, b"2"]
with client.pipeline(transaction=False) as pipe:
    for number in range(1000):
        pipe.set(f"key:{number:04}", number)
    assert all(pipe.execute())
assert sorted(client.scan_iter("key:*")) == [f"key:{number:04}".encode() for number in range(1000)]


def add_one():
    own = redis.Redis(host=sys.argv[1], port=int(sys.argv[2]))
    for _ in range(25):
        own.transaction(lambda pipe: (number := int(pipe.get("sum") or 0), pipe.multi(), pipe.set("sum", number + 1)), "sum")


threads = [threading.Thread(target=add_one) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert client.get("sum") == b"100", client.get("sum")

with client.pipeline() as pipe:
    pipe.set("text", "no number").incr("text").set("after", 1)
    try:
        pipe.execute()
        raise AssertionError("it is no number")
    except redis.ResponseError as error:
        assert "not an integer" in str(error), error
assert client.get("after") == b"1"
try:
    client.lpush("list", 1)
    raise AssertionError("there are no lists")
except redis.ResponseError as error:
    assert "unknown command" in str(error), error
assert client.info()["redis_version"] and client.config_get("save") == {"save": ""}
assert client.dbsize() > 1000 and client.client_getname() is None
client.set("by a client", "redis-py")
client.close()
old = redis.Redis(host=sys.argv[1], port=int(sys.argv[2]), protocol=2, decode_responses=True, client_name="me")
assert old.get("lake") == "deep and cold" and old.client_getname() == "me"
print("ok")
