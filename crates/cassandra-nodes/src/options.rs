//! What Java is started with: a small heap, and what `conf/jvm17-server.options` of Cassandra permits it.

/// The most memory of a node's objects. It takes about as much again beside it.
const HEAP: [&str; 4] = ["-Xms512m", "-Xmx512m", "-XX:MaxDirectMemorySize=128m", "-XX:+UseSerialGC"];

const EXPORTS: [&str; 8] = [
    "java.base/jdk.internal.misc",
    "java.base/java.lang.ref",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
    "jdk.compiler/com.sun.tools.javac.file",
];

const OPENS: [&str; 16] = [
    "java.base/java.lang.module",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "java.base/java.io",
    "java.base/java.nio",
    "java.base/java.lang",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/java.net",
    "jdk.management/com.sun.management.internal",
];

/// Of Cassandra: it runs in the foreground, does not wait for nodes that are not there, and is soon ready.
const PROPERTIES: [&str; 8] = [
    "-Djdk.attach.allowAttachSelf=true",
    "-Dcassandra-foreground=yes",
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.ring_delay_ms=1000",
    "-Dcassandra.superuser_setup_delay_ms=0",
    "-Dcassandra.disk_usage.monitor_interval_ms=500",
    // The compiler that is done soonest: nodes do not live for long.
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
];

pub(crate) fn options() -> Vec<String> {
    let fixed = HEAP.iter().chain(&PROPERTIES).map(|option| (*option).to_owned());
    let exports = EXPORTS.iter().map(|package| format!("--add-exports={package}=ALL-UNNAMED"));
    let opens = OPENS.iter().map(|package| format!("--add-opens={package}=ALL-UNNAMED"));
    fixed.chain(exports).chain(opens).collect()
}
