// go-redis as it comes.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

func check(is bool, what ...any) {
	if !is {
		fmt.Println(what...)
		os.Exit(1)
	}
}

func main() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: net.JoinHostPort(os.Args[1], os.Args[2])})
	check(client.Ping(ctx).Err() == nil, "ping")
	check(client.Set(ctx, "lake", "deep and cold", time.Hour).Err() == nil, "set")
	check(client.Get(ctx, "lake").Val() == "deep and cold", "get")
	check(!client.SetNX(ctx, "lake", "x", 0).Val(), "set nx")
	check(client.MSet(ctx, "a", 1, "b", 2).Err() == nil, "mset")
	values := client.MGet(ctx, "a", "b", "none").Val()
	check(len(values) == 3 && values[0] == "1" && values[2] == nil, values)
	check(client.Del(ctx, "a", "b", "none").Val() == 2, "del")
	check(errors.Is(client.Get(ctx, "none").Err(), redis.Nil), "nil")

	replies, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for number := range 300 {
			pipe.Set(ctx, fmt.Sprintf("key:%d", number), number, 0)
			pipe.Incr(ctx, "n")
		}
		return nil
	})
	check(err == nil && len(replies) == 600, err)
	check(client.Get(ctx, "n").Val() == "300", "n")
	replies, err = client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, "t", 1, 0)
		pipe.Incr(ctx, "t")
		pipe.Get(ctx, "t")
		return nil
	})
	check(err == nil && replies[2].(*redis.StringCmd).Val() == "2", err)

	var group sync.WaitGroup
	for range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 25 {
				for {
					err := client.Watch(ctx, func(tx *redis.Tx) error {
						sum, err := tx.Get(ctx, "sum").Int()
						if err != nil && !errors.Is(err, redis.Nil) {
							return err
						}
						_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
							return pipe.Set(ctx, "sum", sum+1, 0).Err()
						})
						return err
					}, "sum")
					if !errors.Is(err, redis.TxFailedErr) {
						check(err == nil, err)
						break
					}
				}
			}
		}()
	}
	group.Wait()
	check(client.Get(ctx, "sum").Val() == "100", client.Get(ctx, "sum").Val())

	count := 0
	for keys := client.Scan(ctx, 0, "key:*", 50).Iterator(); keys.Next(ctx); {
		count++
	}
	check(count == 300, count)
	err = client.LPush(ctx, "list", 1).Err()
	check(err != nil && strings.Contains(err.Error(), "unknown command"), err)
	check(client.Set(ctx, "by a client", "go-redis", 0).Err() == nil, "set")
	check(client.Close() == nil, "close")
	fmt.Println("ok")
}
