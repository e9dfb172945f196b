// The program uses go-redis' ClusterClient: keys of all nodes, many at once, pipelines, transactions, scans, redirections,
// RESP2 and RESP3; then a node is lost. Its arguments: a host, the ports of three nodes, and the process of the third.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	. "clients/checking"
)

var (
	ctx   = context.Background()
	nodes = addresses()
	// Enough for each node to have some of them, so many.
	keys   = thousand()
	counts = []int64{341, 332, 327}
	// A key of each node.
	keyOf = []string{"k2", "k0", "k1"}
)

func addresses() (all []string) {
	for _, port := range os.Args[2:5] {
		all = append(all, os.Args[1]+":"+port)
	}
	return all
}

func thousand() (all []string) {
	for at := range 1000 {
		all = append(all, fmt.Sprintf("k%d", at))
	}
	return all
}

func open(protocol int) *redis.ClusterClient {
	return redis.NewClusterClient(&redis.ClusterOptions{Addrs: nodes[:1], Protocol: protocol})
}

func values(cluster *redis.ClusterClient) {
	Done("ForEachMaster, FlushAll", cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		return node.FlushAll(ctx).Err()
	}))
	var failed error
	for _, key := range keys {
		failed = errors.Join(failed, cluster.Set(ctx, key, "v"+key, 0).Err())
	}
	Done("Set of 1,000 keys", failed)
	wrong := 0
	for _, key := range keys {
		if found, err := cluster.Get(ctx, key).Result(); err != nil || found != "v"+key {
			wrong++
		}
	}
	Same("Get of 1,000 keys, wrong ones", wrong, nil, 0)
	for at, node := range nodes {
		size, err := redis.NewClient(&redis.Options{Addr: node}).DBSize(ctx).Result()
		Same("the keys of each node", size, err, counts[at])
	}
	size, err := cluster.DBSize(ctx).Result()
	Same("DBSize", size, err, int64(1000))
	Refused("MGet over all nodes", cluster.MGet(ctx, keyOf...).Err(), "CROSSSLOT")
	Done("MSet of one slot", cluster.MSet(ctx, "{tag}a", 1, "{tag}b", 2).Err())
	found, err := cluster.MGet(ctx, "{tag}a", "{tag}b", "{tag}c").Result()
	Same("MGet of one slot", found, err, []any{"1", "2", nil})
	deleted, err := cluster.Del(ctx, "{tag}a", "{tag}b", "{tag}c").Result()
	Same("Del of one slot", deleted, err, int64(2))
	Refused("Rename to another slot", cluster.Rename(ctx, "k3", "k4").Err(), "CROSSSLOT")
	set, err := cluster.Expire(ctx, "k3", 100*time.Second).Result()
	Same("Expire", set, err, true)
}

func transactions(cluster *redis.ClusterClient) {
	replies, err := cluster.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, key := range keys {
			pipe.Set(ctx, key, "p"+key, 0)
		}
		return nil
	})
	Same("a pipeline over all nodes", len(replies), err, 1000)
	var got *redis.StringCmd
	_, err = cluster.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, "{tag}t", 1, 0)
		pipe.Incr(ctx, "{tag}t")
		got = pipe.Get(ctx, "{tag}t")
		return nil
	})
	Same("TxPipelined", got.Val(), err, "2")
	err = cluster.Watch(ctx, func(tx *redis.Tx) error {
		cluster.Set(ctx, "{tag}t", "changed", 0)
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			return pipe.Set(ctx, "{tag}t", "mine", 0).Err()
		})
		return err
	}, "{tag}t")
	Refused("Watch, changed", err, redis.TxFailedErr.Error())
}

func scans(cluster *redis.ClusterClient) {
	var lock sync.Mutex
	var found []string
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		some := node.Scan(ctx, 0, "k99?", 100).Iterator()
		for some.Next(ctx) {
			lock.Lock()
			found = append(found, some.Val())
			lock.Unlock()
		}
		return some.Err()
	})
	sort.Strings(found)
	Same("Scan of each node", strings.Join(found, " "), err, "k990 k991 k992 k993 k994 k995 k996 k997 k998 k999")
}

// A client with a wrong map is told of the right node, and follows.
func moved() {
	wrong := func(context.Context) ([]redis.ClusterSlot, error) {
		return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: nodes[1]}}}}, nil
	}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: wrong})
	for _, key := range keyOf {
		found, err := cluster.Get(ctx, key).Result()
		Same("a redirection", found, err, "p"+key)
	}
	err := redis.NewClient(&redis.Options{Addr: nodes[1]}).Get(ctx, "k2").Err()
	Refused("a key of another node", err, "MOVED 449 "+nodes[0])
}

func lost() {
	cluster := open(3)
	for _, key := range keyOf {
		Done("Set before a node is lost", cluster.Set(ctx, key, "v", 0).Err())
	}
	process, err := strconv.Atoi(os.Args[5])
	Done("the process", err)
	Done("kill", syscall.Kill(process, syscall.SIGKILL))
	limited, end := context.WithTimeout(ctx, 5*time.Second)
	defer end()
	others := func() {
		for _, key := range keyOf[:2] {
			found, err := cluster.Get(limited, key).Result()
			Same("a key of another node than the lost one", found, err, "v")
		}
	}
	others()
	Refused("a key of the lost node", cluster.Get(limited, keyOf[2]).Err(), "")
	others()
}

func main() {
	for _, protocol := range []int{2, 3} {
		cluster := open(protocol)
		values(cluster)
		transactions(cluster)
		scans(cluster)
		Done("Close", cluster.Close())
	}
	moved()
	lost()
	End()
}
