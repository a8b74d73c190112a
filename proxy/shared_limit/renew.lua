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

local function granted_of(member)
  return member.granted or 0
end

local function of_what_is_wanted(members, room)
  local by_want = names_of(members)
  table.sort(by_want, function(a, b)
    if members[a].want ~= members[b].want then return members[a].want < members[b].want end
    return a < b
  end)
  local given, left = {}, room
  for index, name in ipairs(by_want) do
    local count = #by_want - index + 1
    local level = math.floor(left / count)
    if members[name].want > level then
      local in_turn = {unpack(by_want, index)}
      table.sort(in_turn, function(a, b)
        local at_a, at_b = granted_of(members[a]), granted_of(members[b])
        if at_a ~= at_b then return at_a < at_b end
        return a < b
      end)
      local odd = left - level * count
      for place, other in ipairs(in_turn) do
        given[other] = level + (place <= odd and 1 or 0)
      end
      return given, 0
    end
    given[name] = members[name].want
    left = left - given[name]
  end
  return given, left
end

-- Max-min fair, in whole seats; what nobody wants is split evenly.
local function shares(members, room)
  local given, left = of_what_is_wanted(members, room)
  local names = names_of(members)
  local each = math.floor(left / math.max(1, #names))
  local odd = left - each * #names
  local function has_reserve(name)
    return members[name].held - members[name].want > each
  end
  table.sort(names, function(a, b)
    if has_reserve(a) ~= has_reserve(b) then return has_reserve(a) end
    local at_a, at_b = granted_of(members[a]), granted_of(members[b])
    if at_a ~= at_b then return at_a > at_b end
    return a < b
  end)
  for place, name in ipairs(names) do
    given[name] = given[name] + each + (place <= odd and 1 or 0)
  end
  return given
end

local function target_of(name, members, limit)
  local live, room = {}, limit
  for other, member in pairs(members) do
    if is_overdue(member) then room = room - member.held else live[other] = member end
  end
  room = math.max(0, room)
  local fair = shares(live, room)
  local first
  for _, other in ipairs(names_of(live)) do
    local member = members[other]
    if fair[other] < member.widest and member.widest <= room
        and (not first or member.since < members[first].since) then
      first = other
    end
  end
  if not first then return fair[name] end
  if first == name then return members[first].widest end
  live[first] = nil
  return shares(live, room - members[first].widest)[name]
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
    local more = math.min(limit - held, target - member.held)
    if more > 0 then member.held, member.granted = member.held + more, now end
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
  local granted_at = members[me] and granted_of(members[me]) or 0
  members[me] = {
    seq = asked.seq,
    held = asked.keep,
    want = asked.want,
    widest = asked.widest,
    since = now - asked.waited_ms,
    limit = asked.limit,
    seen = now,
    granted = granted_at,
  }
  answer = granted(state)
end
redis.call('SET', KEYS[1], cjson.encode(state), 'PX', ARGV[7])
return cjson.encode(answer)
