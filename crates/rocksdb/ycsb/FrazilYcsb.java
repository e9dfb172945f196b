import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.Vector;
import java.util.concurrent.atomic.AtomicLong;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.Cache;
import org.rocksdb.CompressionType;
import org.rocksdb.HyperClockCache;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.Statistics;
import org.rocksdb.StatsLevel;
import org.rocksdb.TickerType;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;

/**
 * RocksDB as YCSB's database, which all threads share; a record is its fields, each as length and bytes of its name
 * and of its value. Measures itself from the end of a warm-up to its own end, and prints that.
 *
 * <p>Properties: {@code rocksdb.dir}; {@code rocksdb.cache}, {@code lru} or {@code hyper-clock}; {@code
 * rocksdb.cache.bytes}; {@code rocksdb.warm}, the operations of the warm-up; {@code rocksdb.calls}, how often one calls
 * the database on average; {@code rocksdb.compact}, to compact all at the end.
 */
public class FrazilYcsb extends DB {
  private static int users;
  private static RocksDB db;
  private static Options options;
  private static Cache cache;
  private static Statistics statistics;
  private static double callsOfOne;
  private static long warm;
  private static final AtomicLong CALLS = new AtomicLong();
  private static volatile long[] begun;

  @Override
  public void init() throws DBException {
    synchronized (FrazilYcsb.class) {
      if (users++ == 0) {
        try {
          open(getProperties());
        } catch (IOException | RocksDBException error) {
          throw new DBException(error);
        }
      }
    }
  }

  private static void open(Properties properties) throws IOException, RocksDBException {
    RocksDB.loadLibrary();
    long bytes = Long.parseLong(properties.getProperty("rocksdb.cache.bytes"));
    boolean isLru = "lru".equals(properties.getProperty("rocksdb.cache"));
    cache = isLru ? new LRUCache(bytes) : new HyperClockCache(bytes, 0, -1, false);
    statistics = new Statistics();
    statistics.setStatsLevel(StatsLevel.EXCEPT_DETAILED_TIMERS);
    BlockBasedTableConfig table =
        new BlockBasedTableConfig().setBlockCache(cache).setFilterPolicy(new BloomFilter(10));
    options =
        new Options()
            .setCreateIfMissing(true)
            .setTableFormatConfig(table)
            .setCompressionType(CompressionType.NO_COMPRESSION)
            .setStatistics(statistics);
    callsOfOne = Double.parseDouble(properties.getProperty("rocksdb.calls", "1"));
    warm = (long) (Long.parseLong(properties.getProperty("rocksdb.warm")) * callsOfOne);
    Path folder = Path.of(properties.getProperty("rocksdb.dir"));
    Files.createDirectories(folder);
    db = RocksDB.open(options, folder.toString());
    begun = moment();
  }

  /** Calls, nanoseconds of the processor and by the clock, and blocks of data that were not cached. */
  private static long[] moment() {
    com.sun.management.OperatingSystemMXBean system =
        (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    long misses = statistics.getTickerCount(TickerType.BLOCK_CACHE_DATA_MISS);
    return new long[] {CALLS.get(), system.getProcessCpuTime(), System.nanoTime(), misses};
  }

  private static void called() {
    if (CALLS.incrementAndGet() == warm) {
      begun = moment();
    }
  }

  @Override
  public void cleanup() throws DBException {
    synchronized (FrazilYcsb.class) {
      if (--users > 0) {
        return;
      }
      long[] ended = moment();
      // Operations.
      StringBuilder line = new StringBuilder("measured: ");
      line.append(Math.round((ended[0] - begun[0]) / callsOfOne));
      for (int at = 1; at < ended.length; at++) {
        line.append(' ').append(ended[at] - begun[at]);
      }
      System.out.println(line);
      try {
        // Whose cache it was: a line of this begins with its name.
        System.out.println(db.getProperty("rocksdb.block-cache-entry-stats"));
        if (Boolean.parseBoolean(getProperties().getProperty("rocksdb.compact"))) {
          db.compactRange();
        }
      } catch (RocksDBException error) {
        throw new DBException(error);
      } finally {
        db.close();
        options.close();
        cache.close();
      }
    }
  }

  @Override
  public Status read(
      String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    try {
      byte[] record = db.get(key.getBytes());
      called();
      if (record == null) {
        return Status.NOT_FOUND;
      }
      result.putAll(decode(record, fields));
      return Status.OK;
    } catch (RocksDBException error) {
      return Status.ERROR;
    }
  }

  @Override
  public Status scan(
      String table,
      String start,
      int count,
      Set<String> fields,
      Vector<HashMap<String, ByteIterator>> result) {
    try (RocksIterator it = db.newIterator()) {
      int left = count;
      for (it.seek(start.getBytes()); it.isValid() && left > 0; it.next()) {
        result.add(decode(it.value(), fields));
        left--;
      }
    }
    called();
    return Status.OK;
  }

  /** Reads the record too: some of its fields are written, and all are one value. */
  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    try {
      byte[] before = db.get(key.getBytes());
      if (before == null) {
        return Status.NOT_FOUND;
      }
      Map<String, ByteIterator> record = decode(before, null);
      record.putAll(values);
      return insert(table, key, record);
    } catch (RocksDBException error) {
      return Status.ERROR;
    }
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    try {
      db.put(key.getBytes(), encode(values));
      called();
      return Status.OK;
    } catch (RocksDBException error) {
      return Status.ERROR;
    }
  }

  @Override
  public Status delete(String table, String key) {
    try {
      db.delete(key.getBytes());
      called();
      return Status.OK;
    } catch (RocksDBException error) {
      return Status.ERROR;
    }
  }

  private static byte[] encode(Map<String, ByteIterator> values) {
    byte[][] parts = new byte[values.size() * 2][];
    int at = 0;
    int length = 0;
    for (Map.Entry<String, ByteIterator> field : values.entrySet()) {
      parts[at++] = field.getKey().getBytes();
      parts[at++] = field.getValue().toArray();
    }
    for (byte[] part : parts) {
      length += 4 + part.length;
    }
    ByteBuffer record = ByteBuffer.allocate(length);
    for (byte[] part : parts) {
      record.putInt(part.length).put(part);
    }
    return record.array();
  }

  private static HashMap<String, ByteIterator> decode(byte[] record, Set<String> wanted) {
    HashMap<String, ByteIterator> values = new HashMap<>();
    ByteBuffer rest = ByteBuffer.wrap(record);
    while (rest.hasRemaining()) {
      int length = rest.getInt();
      String name = new String(record, rest.position(), length);
      rest.position(rest.position() + length);
      length = rest.getInt();
      if (wanted == null || wanted.contains(name)) {
        values.put(name, new ByteArrayByteIterator(record, rest.position(), length));
      }
      rest.position(rest.position() + length);
    }
    return values;
  }
}
