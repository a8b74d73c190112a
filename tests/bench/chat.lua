wrk.method = "POST"
wrk.body = '{"model":"tiny","messages":[{"role":"user","content":"Hello, how are you?"}]}'
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer sk-test"
