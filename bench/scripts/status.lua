-- The node's state: wrk -t1 -c4 -d10s -s bench/scripts/status.lua URL
wrk.path = "/v0/status"
