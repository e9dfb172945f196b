// The program uses go-redis: strings, expiry, transactions, pipelines, scans, users, RESP2 and RESP3.
package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	. "clients/checking"
)

var ctx = context.Background()

const absent = "redis: nil"

func values(client *redis.Client) {
	text := func(what string, found *redis.StringCmd, wanted string) { Same(what, found.Val(), found.Err(), wanted) }
	number := func(what string, found *redis.IntCmd, wanted int64) { Same(what, found.Val(), found.Err(), wanted) }
	Done("FlushAll", client.FlushAll(ctx).Err())
	Done("Ping", client.Ping(ctx).Err())
	text("Get, absent", client.Get(ctx, "absent"), absent)
	Done("Set", client.Set(ctx, "key", "value", 0).Err())
	text("Get", client.Get(ctx, "key"), "value")
	_, err := client.SetArgs(ctx, "key", "x", redis.SetArgs{Mode: "NX"}).Result()
	Refused("SetArgs NX, present", err, absent)
	old, err := client.SetArgs(ctx, "key", "other", redis.SetArgs{Get: true}).Result()
	Same("SetArgs Get", old, err, "value")
	number("Append", client.Append(ctx, "key", "!"), 6)
	number("StrLen", client.StrLen(ctx, "key"), 6)
	text("GetRange", client.GetRange(ctx, "key", 1, -2), "ther")
	number("SetRange", client.SetRange(ctx, "key", 5, "??"), 7)
	text("GetDel", client.GetDel(ctx, "key"), "other??")
	all := make([]byte, 256)
	for at := range all {
		all[at] = byte(at)
	}
	Done("Set all bytes", client.Set(ctx, string(all[:250]), all, 0).Err())
	text("Get all bytes", client.Get(ctx, string(all[:250])), string(all))
	big := strings.Repeat("0123456789", 100_000)
	Done("Set, a million bytes", client.Set(ctx, "big", big, 0).Err())
	text("Get, a million bytes", client.Get(ctx, "big"), big)
	Done("MSet", client.MSet(ctx, "a", 1, "b", 2, "ä", "ö").Err())
	many, err := client.MGet(ctx, "a", "absent", "ä").Result()
	Same("MGet", many, err, []any{"1", nil, "ö"})
	number("Exists", client.Exists(ctx, "a", "b", "absent"), 2)
	number("Del", client.Del(ctx, "b", "absent"), 1)
	number("Incr", client.Incr(ctx, "n"), 1)
	number("IncrBy", client.IncrBy(ctx, "n", 9), 10)
	number("Decr", client.Decr(ctx, "n"), 9)
	sum, err := client.IncrByFloat(ctx, "n", 0.5).Result()
	Same("IncrByFloat", sum, err, 9.5)
	Refused("Incr of a word", client.Incr(ctx, "ä").Err(), "not an integer")
	Refused("an unknown command", client.Do(ctx, "NONSENSE").Err(), "unknown command")
	number("SetBit", client.SetBit(ctx, "bits", 7, 1), 0)
	number("BitCount", client.BitCount(ctx, "bits", nil), 1)
	Same("Type", client.Type(ctx, "n").Val(), client.Type(ctx, "n").Err(), "string")
}

func expiry(client *redis.Client) {
	within := func(what string, found *redis.DurationCmd, least, most time.Duration) {
		Same(what, least <= found.Val() && found.Val() <= most, found.Err(), true)
	}
	Done("Set for 100 s", client.Set(ctx, "lives", "v", 100*time.Second).Err())
	within("TTL", client.TTL(ctx, "lives"), 99*time.Second, 100*time.Second)
	within("PTTL", client.PTTL(ctx, "lives"), 99*time.Second, 100*time.Second)
	Same("Persist", client.Persist(ctx, "lives").Val(), nil, true)
	within("TTL, none", client.TTL(ctx, "lives"), -1, -1)
	within("TTL, absent", client.TTL(ctx, "absent"), -2, -2)
	Same("Expire", client.Expire(ctx, "lives", 50*time.Second).Val(), nil, true)
	Same("ExpireGT", client.ExpireGT(ctx, "lives", 10*time.Second).Val(), nil, false)
	found, err := client.GetEx(ctx, "lives", 30*time.Second).Result()
	Same("GetEx", found, err, "v")
	within("TTL after GetEx", client.TTL(ctx, "lives"), 29*time.Second, 30*time.Second)
	Done("Set for 60 ms", client.Set(ctx, "short", "s", 60*time.Millisecond).Err())
	time.Sleep(100 * time.Millisecond)
	Refused("Get, expired", client.Get(ctx, "short").Err(), absent)
}

func transactions(client *redis.Client) {
	var got *redis.StringCmd
	_, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, "t", 1, 0)
		pipe.Incr(ctx, "t")
		got = pipe.Get(ctx, "t")
		return nil
	})
	Same("TxPipelined", got.Val(), err, "2")
	replies, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for at := range 1000 {
			pipe.Set(ctx, fmt.Sprintf("p%d", at), at, 0)
		}
		return nil
	})
	Same("a pipeline of 1,000", len(replies), err, 1000)
	err = client.Watch(ctx, func(tx *redis.Tx) error {
		client.Set(ctx, "t", "changed", 0)
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Set(ctx, "t", "mine", 0).Err() })
		return err
	}, "t")
	Refused("Watch, changed", err, redis.TxFailedErr.Error())

	client.Set(ctx, "sum", 0, 0)
	add := func() error {
		for {
			err := client.Watch(ctx, func(tx *redis.Tx) error {
				sum, err := tx.Get(ctx, "sum").Int()
				if err != nil {
					return err
				}
				_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Set(ctx, "sum", sum+1, 0).Err() })
				return err
			}, "sum")
			if !errors.Is(err, redis.TxFailedErr) {
				return err
			}
		}
	}
	failed := make(chan error)
	for range 4 {
		go func() {
			var failure error
			for range 50 {
				failure = errors.Join(failure, add())
			}
			failed <- failure
		}()
	}
	for range 4 {
		Done("Watch among four", <-failed)
	}
	sum, err := client.Get(ctx, "sum").Result()
	Same("the sum of four", sum, err, "200")
}

func scans(client *redis.Client) {
	found := map[string]bool{}
	keys := client.Scan(ctx, 0, "p99?", 100).Iterator()
	for keys.Next(ctx) {
		found[keys.Val()] = true
	}
	Same("Scan", len(found), keys.Err(), 10)
	listed, err := client.Keys(ctx, "p99[01]").Result()
	sort.Strings(listed)
	Same("Keys", listed, err, []string{"p990", "p991"})
	size, err := client.DBSize(ctx).Result()
	Same("DBSize", size >= 1000, err, true)
}

func connection(client *redis.Client, protocol int) {
	number, err := client.ClientID(ctx).Result()
	Same("ClientID", number > 0, err, true)
	name, err := client.ClientGetName(ctx).Result()
	Same("ClientGetName", name, err, "me")
	info, err := client.ClientInfo(ctx).Result()
	Same("ClientInfo", info.Name, err, "me")
	list, err := client.ClientList(ctx).Result()
	Same("ClientList", strings.Contains(list, "name=me"), err, true)
	server, err := client.Info(ctx, "server").Result()
	Same("Info", strings.Contains(server, "redis_version:7."), err, true)
	config, err := client.ConfigGet(ctx, "maxmemory").Result()
	Same("ConfigGet", len(config), err, 1)
	commands, err := client.Command(ctx).Result()
	Same("Command", commands["get"] != nil && commands["get"].FirstKeyPos == 1, err, true)
	if protocol == 3 {
		hello, err := client.Do(ctx, "HELLO").Result()
		Same("HELLO", hello.(map[any]any)["proto"], err, int64(3))
	}
}

func clientSideCache() {
	writer := redis.NewClient(&redis.Options{Addr: Address})
	reader := redis.NewClient(&redis.Options{Addr: Address, Protocol: 3, ClientSideCacheConfig: &redis.ClientSideCacheConfig{}})
	read := func() (any, error) {
		found, err := reader.Get(ctx, "cached").Result()
		if errors.Is(err, redis.Nil) {
			return absent, nil
		}
		return found, err
	}
	Done("cache: Set", writer.Set(ctx, "cached", 1, 0).Err())
	Soon("cache: Get", read, "1")
	Soon("cache: Get again", read, "1")
	Done("cache: another's Incr", writer.Incr(ctx, "cached").Err())
	Soon("cache: it is seen", read, "2")
	Done("cache: another's Del", writer.Del(ctx, "cached").Err())
	Soon("cache: it is seen", read, absent)
	Done("cache: another's Set", writer.Set(ctx, "cached", 3, 0).Err())
	Soon("cache: it is seen", read, "3")
	Done("cache: another's FlushAll", writer.FlushAll(ctx).Err())
	Soon("cache: it is seen", read, absent)
}

func users() {
	open := func(user, password string, protocol int) *redis.Client {
		return redis.NewClient(&redis.Options{Addr: Secured, Username: user, Password: password, Protocol: protocol})
	}
	for _, protocol := range []int{2, 3} {
		Refused("no password", open("", "", protocol).Get(ctx, "key").Err(), "NOAUTH")
		Refused("a wrong password", open("", "wrong", protocol).Get(ctx, "key").Err(), "WRONGPASS")
		Done("a password", open("", "secret", protocol).Set(ctx, "key", "v", 0).Err())
		app := open("app", "word", protocol)
		Done("a user", app.Set(ctx, "app:key", "v", 0).Err())
		Refused("another's key", app.Get(ctx, "key").Err(), "NOPERM")
		Refused("another's command", app.ConfigGet(ctx, "maxmemory").Err(), "NOPERM")
	}
}

func main() {
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: Address, Protocol: protocol, ClientName: "me"})
		values(client)
		expiry(client)
		transactions(client)
		scans(client)
		connection(client, protocol)
		Done("Close", client.Close())
	}
	clientSideCache()
	users()
	End()
}
