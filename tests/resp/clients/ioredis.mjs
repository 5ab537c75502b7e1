// ioredis as it comes: it asks for INFO before it begins, and pipelines what is sent within a turn.
import assert from "node:assert";
import { Redis } from "ioredis";

const [host, port] = process.argv.slice(2);
const client = new Redis({ host, port: Number(port) });
assert.equal(await client.set("lake", "deep and cold", "EX", 3600), "OK");
assert.equal(await client.get("lake"), "deep and cold");
assert.equal(await client.set("lake", "x", "NX"), null);
assert.deepEqual(await client.mset("a", 1, "b", 2), "OK");
assert.deepEqual(await client.mget("a", "b", "none"), ["1", "2", null]);
const sums = await Promise.all(Array.from({ length: 200 }, () => client.incr("n")));
assert.deepEqual(sums, Array.from({ length: 200 }, (_, number) => number + 1));
assert.deepEqual(await client.pipeline().set("p", 1).incr("p").del("p").setnx("p", 7).get("p").exec(), [
  [null, "OK"], [null, 2], [null, 1], [null, 1], [null, "7"],
]);
assert.deepEqual(await client.multi().set("t", 1).incr("t").get("t").exec(), [[null, "OK"], [null, 2], [null, "2"]]);
const other = client.duplicate();
await client.watch("t");
await other.incr("t");
assert.equal(await client.multi().set("t", "mine").exec(), null);
for (let number = 0; number < 300; number++) await client.set(`key:${number}`, number);
const found = new Set();
for await (const keys of client.scanStream({ match: "key:*", count: 50 })) keys.forEach((key) => found.add(key));
assert.equal(found.size, 300);
await assert.rejects(client.lpush("list", 1), /unknown command/);
assert.equal((await client.getBuffer("lake")).toString(), "deep and cold");
await client.set("by a client", "ioredis");
await Promise.all([client.quit(), other.quit()]);
console.log("ok");
