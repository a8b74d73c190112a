-- lease_rules.py in the store: one gateway renews its lease on one engine, in one step.
--
-- KEYS[1]  the leases on this engine, as JSON
-- ARGV     the server's run id, the renewal as JSON, the time in ms ("": the server's),
--          LEASE_MS, GRACE_MS, MISSING_MS, and for how many ms leases that nobody renews are kept
--
-- It answers in JSON; without `held` the renewal came too late to count.

local run, asked = ARGV[1], cjson.decode(ARGV[2])
local lease_ms, grace_ms, missing_ms = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local me = asked.gateway

local now = tonumber(ARGV[3])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local function is_overdue(member)
  return now - member.seen > lease_ms
end

local function is_in_grace(state)
  local waits_ms = next(state.missing) and missing_ms or grace_ms
  return now - state.began < waits_ms
end

local function begun_anew(lost)
  local missing = {}
  if lost then
    for name, member in pairs(lost.members) do
      if now - member.seen < missing_ms then missing[name] = 1 end
    end
    if is_in_grace(lost) then
      for name in pairs(lost.missing) do missing[name] = 1 end
    end
  end
  return {run = run, began = now, members = {}, missing = missing}
end

local function names_of(map)
  local names = {}
  for name in pairs(map) do names[#names + 1] = name end
  table.sort(names)
  return names
end

-- Max-min fair, in whole seats; what nobody wants is split evenly.
local function shares(wants, room)
  local names = names_of(wants)
  local by_want = names_of(wants)
  table.sort(by_want, function(a, b)
    if wants[a] ~= wants[b] then return wants[a] < wants[b] end
    return a < b
  end)
  local given, left = {}, room
  for index, name in ipairs(by_want) do
    given[name] = math.min(wants[name], math.floor(left / (#names - index + 1)))
    left = left - given[name]
  end
  for index, name in ipairs(names) do
    local spare = math.floor(left / (#names - index + 1))
    given[name] = given[name] + spare
    left = left - spare
  end
  return given
end

local function target_of(name, members, limit)
  local wants, room = {}, limit
  for other, member in pairs(members) do
    if is_overdue(member) then room = room - member.held else wants[other] = member.want end
  end
  room = math.max(0, room)
  local fair = shares(wants, room)
  local first
  for _, other in ipairs(names_of(wants)) do
    local member = members[other]
    if fair[other] < member.widest and member.widest <= room
        and (not first or member.since < members[first].since) then
      first = other
    end
  end
  if not first then return fair[name] end
  if first == name then return members[first].widest end
  wants[first] = nil
  return shares(wants, room - members[first].widest)[name]
end

local function granted(state)
  local members, member = state.members, state.members[me]
  local limit, held, overdue, all = member.limit, 0, {}, {}
  for name in pairs(state.missing) do all[name] = 1 end
  for name, other in pairs(members) do
    all[name] = 1
    limit = math.min(limit, other.limit)
    held = held + other.held
    if is_overdue(other) then overdue[name] = {other.seq, now - other.seen} end
  end
  local in_grace = is_in_grace(state)
  local target = member.held
  if not in_grace then
    target = target_of(me, members, limit)
    member.held = member.held + math.max(0, math.min(limit - held, target - member.held))
  end
  return {
    held = member.held,
    target = target,
    limit = limit,
    members = names_of(all),
    overdue = overdue,
    in_grace = in_grace,
  }
end

local known = redis.call('GET', KEYS[1])
local state = known and cjson.decode(known)
if not state or state.run ~= run then state = begun_anew(state) end

if not is_in_grace(state) then state.missing = {} end

local members = state.members
if members[me] and asked.seq <= members[me].seq then return '{}' end
if not members[me] and is_in_grace(state) then
  for _, name in ipairs(asked.known) do
    if not members[name] then state.missing[name] = 1 end
  end
end
state.missing[me] = nil
for name, seq in pairs(asked.gone) do
  local member = members[name]
  if member and member.seq == seq and is_overdue(member) then members[name] = nil end
end

local answer
if asked.leaves then
  members[me] = nil
  answer = {held = 0, target = 0, limit = 0, members = {}, overdue = {}, in_grace = false}
else
  members[me] = {
    seq = asked.seq,
    held = asked.keep,
    want = asked.want,
    widest = asked.widest,
    since = now - asked.waited_ms,
    limit = asked.limit,
    seen = now,
  }
  answer = granted(state)
end
redis.call('SET', KEYS[1], cjson.encode(state), 'PX', ARGV[7])
return cjson.encode(answer)
