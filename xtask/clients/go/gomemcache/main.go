// The program uses gomemcache: values with flags, numbers for cas, counters, many keys, lifetimes.
package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	. "clients/checking"
)

func main() {
	client := memcache.New(Address)
	client.Timeout = 10 * time.Second
	get := func(key string) (string, error) {
		item, err := client.Get(key)
		if err != nil {
			return "", err
		}
		return string(item.Value), nil
	}
	holds := func(what, key, wanted string) {
		found, err := get(key)
		Same(what, found, err, wanted)
	}
	set := func(key, value string, lifetime int32) error {
		return client.Set(&memcache.Item{Key: key, Value: []byte(value), Expiration: lifetime})
	}
	const miss = "memcache: cache miss"
	const notStored = "memcache: item not stored"

	Done("FlushAll", client.FlushAll())
	Done("Ping", client.Ping())
	holds("Get, absent", "absent", miss)
	Done("Set", set("key", "value", 0))
	holds("Get", "key", "value")
	Done("Set, empty", set("empty", "", 0))
	holds("Get, empty", "empty", "")
	Done("Set with flags", client.Set(&memcache.Item{Key: "flags", Value: []byte("f"), Flags: 4294967295}))
	item, err := client.Get("flags")
	Same("Get with flags", item.Flags, err, uint32(4294967295))
	Refused("Add, present", client.Add(&memcache.Item{Key: "key", Value: []byte("x")}), notStored)
	Done("Add, absent", client.Add(&memcache.Item{Key: "added", Value: []byte("2")}))
	Done("Replace, present", client.Replace(&memcache.Item{Key: "added", Value: []byte("2")}))
	Refused("Replace, absent", client.Replace(&memcache.Item{Key: "absent", Value: []byte("x")}), notStored)
	Done("Append", client.Append(&memcache.Item{Key: "added", Value: []byte("3")}))
	Done("Prepend", client.Prepend(&memcache.Item{Key: "added", Value: []byte("1")}))
	holds("Get, appended", "added", "123")
	Refused("Append, absent", client.Append(&memcache.Item{Key: "absent", Value: []byte("x")}), notStored)
	Done("Delete", client.Delete("added"))
	Refused("Delete, absent", client.Delete("added"), miss)

	first, err := client.Get("key")
	Done("Get for cas", err)
	second, err := client.Get("key")
	Done("Get for cas, another", err)
	first.Value = []byte("swapped")
	Done("CompareAndSwap", client.CompareAndSwap(first))
	second.Value = []byte("late")
	Refused("CompareAndSwap, old number", client.CompareAndSwap(second), "compare-and-swap conflict")
	holds("Get after cas", "key", "swapped")
	third, err := client.Get("key")
	Done("Get for cas, a third", err)
	Done("Delete before cas", client.Delete("key"))
	Refused("CompareAndSwap, absent", client.CompareAndSwap(third), miss)

	Done("Set a number", set("number", "10", 0))
	sum, err := client.Increment("number", 5)
	Same("Increment", sum, err, uint64(15))
	sum, err = client.Decrement("number", 6)
	Same("Decrement", sum, err, uint64(9))
	sum, err = client.Decrement("number", 100)
	Same("Decrement below zero", sum, err, uint64(0))
	_, err = client.Increment("absent", 1)
	Refused("Increment, absent", err, miss)
	Done("Set the largest number", set("number", "18446744073709551615", 0))
	sum, err = client.Increment("number", 2)
	Same("Increment over 64 bits", sum, err, uint64(1))
	Done("Set a word", set("word", "w", 0))
	_, err = client.Increment("word", 1)
	Refused("Increment of a word", err, "non-numeric")

	var keys []string
	for at := range 200 {
		keys = append(keys, fmt.Sprintf("many%d", at))
		if err := set(keys[at], fmt.Sprint(at), 0); err != nil {
			Done("Set of many", err)
		}
	}
	many, err := client.GetMulti(append(keys, "absent"))
	Same("GetMulti", len(many), err, 200)
	Same("GetMulti, a value", string(many["many77"].Value), err, "77")

	all := make([]byte, 256)
	for at := range all {
		all[at] = byte(at)
	}
	Done("Set all bytes", client.Set(&memcache.Item{Key: "bytes", Value: all}))
	holds("Get all bytes", "bytes", string(all))
	big := bytes.Repeat([]byte("0123456789"), 100_000)
	Done("Set, a million bytes", client.Set(&memcache.Item{Key: "big", Value: big}))
	holds("Get, a million bytes", "big", string(big))
	Refused("Set, two MiB", client.Set(&memcache.Item{Key: "big", Value: make([]byte, 2<<20)}), "SERVER_ERROR object too large for cache")
	holds("Get after that", "many1", "1")
	Done("a key of 250 bytes", set(strings.Repeat("k", 250), "k", 0))
	holds("Get of it", strings.Repeat("k", 250), "k")
	Done("a key in UTF-8", set("schlüssel-鍵", "u", 0))
	holds("Get of a key in UTF-8", "schlüssel-鍵", "u")
	Refused("a key with a space", set("a key", "x", 0), "malformed")

	Done("Set for a second", set("short", "s", 1))
	Done("Set for a second, touched", set("kept", "k", 1))
	Done("Set for a second, read", set("read", "r", 1))
	Done("Touch", client.Touch("kept", 60))
	Refused("Touch, absent", client.Touch("absent", 60), miss)
	item, err = client.GetAndTouch("read", 60)
	Same("GetAndTouch", string(item.Value), err, "r")
	_, err = client.GetAndTouch("absent", 60)
	Refused("GetAndTouch, absent", err, miss)
	Done("Set to a date", set("dated", "d", int32(time.Now().Unix()+60)))
	holds("Get, a date as lifetime", "dated", "d")
	time.Sleep(2100 * time.Millisecond)
	holds("Get, expired", "short", miss)
	holds("Get, touched", "kept", "k")
	holds("Get, got and touched", "read", "r")

	errors := make(chan error)
	for at := range 8 {
		go func() {
			var failed error
			for number := range 500 {
				key := fmt.Sprintf("g%d:%d", at, number)
				if err := set(key, key, 0); err != nil {
					failed = err
				}
				if found, err := get(key); err != nil || found != key {
					failed = fmt.Errorf("%s: %q, %v", key, found, err)
				}
			}
			errors <- failed
		}()
	}
	for range 8 {
		Done("500 sets and gets among others", <-errors)
	}
	Done("DeleteAll", client.DeleteAll())
	holds("Get, all deleted", "many5", miss)
	Done("Close", client.Close())
	End()
}
