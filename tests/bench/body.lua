-- A chat request with a body of BODY_BYTES bytes, nearly all of them the prompt.
local head = '{"model":"tiny","messages":[{"role":"user","content":"'
local tail = '"}]}'
local size = tonumber(os.getenv("BODY_BYTES"))
wrk.method = "POST"
wrk.body = head .. string.rep("a", size - #head - #tail) .. tail
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer sk-test"
