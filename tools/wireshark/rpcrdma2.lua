-- RPC-over-RDMA version two (draft-cel-nfsv4-rpcrdma-version-two-01) with the transport
-- characteristics (draft-dnoveck-nfsv4-rpcrdma-xcharext-02), for Wireshark and tshark:
--
--   tshark -X lua_script:rpcrdma2.lua -r capture.pcapng
--
-- or copy it into a folder that "About Wireshark, Folders, Lua Plugins" lists. Version one is what
-- Wireshark's own dissector reads; this one takes the messages that say version 2.

local proto = Proto("rpcrdma2", "RPC over RDMA version two")

local kinds = { [0] = "RDMA2_MSG", [1] = "RDMA2_NOMSG", [4] = "RDMA2_ERROR", [5] = "RDMA2_OPTIONAL" }
local directions = { [0] = "CALL", [1] = "REPLY" }
local errors = { [1] = "RDMA2_ERR_VERS", [2] = "RDMA2_ERR_BAD_HEADER", [3] = "RDMA2_ERR_INVAL_OPTION" }
local options = { [1] = "INITXCH", [2] = "REQXCH", [3] = "RESPXCH", [4] = "UPDXCH" }
local characteristics = { [1] = "XCHAR_RBSIZ", [2] = "XCHAR_REQREMINV", [3] = "XCHAR_BRS" }
local backward = { [0] = "NONE", [1] = "INLINE", [2] = "GENL" }

local f = {
  xid = ProtoField.uint32("rpcrdma2.xid", "XID", base.HEX),
  vers = ProtoField.uint32("rpcrdma2.vers", "Version"),
  credit = ProtoField.uint32("rpcrdma2.credit", "Credits"),
  proc = ProtoField.uint32("rpcrdma2.proc", "Message type", base.DEC, kinds),
  direction = ProtoField.uint32("rpcrdma2.direction", "Direction", base.DEC, directions),
  err = ProtoField.uint32("rpcrdma2.err", "Error", base.DEC, errors),
  low = ProtoField.uint32("rpcrdma2.vers_low", "Lowest version"),
  high = ProtoField.uint32("rpcrdma2.vers_high", "Highest version"),
  reads = ProtoField.uint32("rpcrdma2.reads", "Read segments"),
  writes = ProtoField.uint32("rpcrdma2.writes", "Write chunks"),
  reply = ProtoField.bool("rpcrdma2.reply", "Reply chunk"),
  position = ProtoField.uint32("rpcrdma2.position", "Position"),
  handle = ProtoField.uint32("rpcrdma2.handle", "Handle", base.HEX),
  length = ProtoField.uint32("rpcrdma2.length", "Length"),
  offset = ProtoField.uint64("rpcrdma2.offset", "Offset", base.HEX),
  opttype = ProtoField.uint32("rpcrdma2.opttype", "Option", base.DEC, options),
  xchar = ProtoField.uint32("rpcrdma2.xchar", "Characteristic", base.DEC, characteristics),
  value = ProtoField.uint32("rpcrdma2.value", "Value"),
  data = ProtoField.bytes("rpcrdma2.data", "Data"),
  nochg = ProtoField.string("rpcrdma2.nochg", "Not expected to change"),
  done = ProtoField.string("rpcrdma2.done", "Done"),
  rej = ProtoField.string("rpcrdma2.rej", "Rejected"),
  pend = ProtoField.string("rpcrdma2.pend", "Pending"),
  pendclr = ProtoField.bool("rpcrdma2.pendclr", "No longer pending"),
}
proto.fields = f
local malformed = ProtoExpert.new("rpcrdma2.malformed", "The message breaks a rule of its header",
                                  expert.group.MALFORMED, expert.severity.ERROR)
proto.experts = { malformed }

-- Reads words one after another. A word that is not there ends the dissection by an error, which
-- dissect() turns into an expert item.
local function reader(tvb, start, finish)
  local self = { at = start }
  function self.take(size)
    if self.at + size > finish then error({ at = self.at }) end
    local range = tvb(self.at, size)
    self.at = self.at + size
    return range
  end
  function self.word()
    return self.take(4):uint()
  end
  -- An item of the tree, and its value.
  function self.field(tree, field)
    local range = self.take(4)
    return range:uint(), tree:add(field, range)
  end
  function self.left()
    return finish - self.at
  end
  return self
end

local function segment(read, tree, title)
  local start = read.at
  local branch = tree:add(proto, title)
  local _, _ = read.field(branch, f.handle)
  local length = read.field(branch, f.length)
  branch:add(f.offset, read.take(8))
  branch:append_text(string.format(": %u bytes", length))
  return start
end

local function segments(read, tree, title)
  local count = read.word()
  if count * 16 > read.left() then error({ at = read.at }) end
  local branch = tree:add(proto, string.format("%s: %u segments", title, count))
  for i = 1, count do segment(read, branch, "Segment " .. i) end
end

local function flag(read)
  local value = read.word()
  if value > 1 then error({ at = read.at - 4 }) end
  return value == 1
end

local function chunk_lists(read, tree)
  local reads = 0
  while flag(read) do
    reads = reads + 1
    local position = read.take(4)
    local branch = tree:add(proto, "Read segment " .. reads)
    branch:add(f.position, position)
    segment(read, branch, "Segment")
  end
  tree:add(f.reads, reads):set_generated()
  local writes = 0
  while flag(read) do
    writes = writes + 1
    segments(read, tree, "Write chunk " .. writes)
  end
  tree:add(f.writes, writes):set_generated()
  local has_reply = flag(read)
  tree:add(f.reply, has_reply):set_generated()
  if has_reply then segments(read, tree, "Reply chunk") end
end

local function value(read, tree)
  local id, item = read.field(tree, f.xchar)
  local size = read.word()
  if size == 4 then
    local number = read.field(item, f.value)
    local text = tostring(number)
    if id == 2 then text = number == 1 and "true" or "false" end
    if id == 3 then text = backward[number] or text end
    item:append_text(" = " .. text)
    return (characteristics[id] or tostring(id)) .. "=" .. text
  end
  local padded = math.floor((size + 3) / 4) * 4
  if padded > 0 then item:add(f.data, read.take(padded)(0, size)) end
  return characteristics[id] or string.format("0x%08x", id)
end

local function spec(read, tree)
  local texts = {}
  for _ = 1, read.word() do texts[#texts + 1] = value(read, tree) end
  return table.concat(texts, ", ")
end

-- Element N is bit N mod 32, from the least significant, of word N div 32.
local function subset(read, tree, field)
  local elements, start = {}, read.at
  local words = read.word()
  if words * 4 > read.left() then error({ at = read.at }) end
  for word = 0, words - 1 do
    local bits = read.word()
    for bit = 0, 31 do
      if math.floor(bits / 2 ^ bit) % 2 == 1 then elements[#elements + 1] = tostring(32 * word + bit) end
    end
  end
  local text = #elements == 0 and "none" or table.concat(elements, ",")
  tree:add(field, text)
  return text
end

local function option(read, tree, kind)
  if kind == 1 then
    local text = spec(read, tree)
    subset(read, tree, f.nochg)
    return text
  elseif kind == 2 then
    return spec(read, tree)
  elseif kind == 3 then
    return string.format("done %s, rejected %s, pending %s", subset(read, tree, f.done),
                         subset(read, tree, f.rej), subset(read, tree, f.pend))
  elseif kind == 4 then
    local text = value(read, tree)
    local cleared = flag(read)
    tree:add(f.pendclr, cleared)
    return text .. (cleared and ", no longer pending" or "")
  end
  return ""
end

-- What stands behind the prefix; returns what is said of it in the list of packets.
local function body(tvb, read, tree, kind)
  if kind == 0 or kind == 1 then
    local direction = read.field(tree, f.direction)
    chunk_lists(read, tree)
    return directions[direction] or "?"
  elseif kind == 4 then
    local code = read.field(tree, f.err)
    if code == 1 then
      local low = read.field(tree, f.low)
      local high = read.field(tree, f.high)
      return string.format("%s %u to %u", errors[1], low, high)
    end
    if not errors[code] then error({ at = read.at - 4 }) end
    return errors[code]
  elseif kind == 5 then
    local direction = read.field(tree, f.direction)
    local opttype = read.field(tree, f.opttype)
    local size = read.word()
    local padded = math.floor((size + 3) / 4) * 4
    if padded > read.left() then error({ at = read.at }) end
    local inner = reader(tvb, read.at, read.at + size)
    local text = option(inner, tree, opttype)
    if options[opttype] and inner.left() > 0 then error({ at = inner.at }) end
    read.at = read.at + padded
    return string.format("%s %s %s", options[opttype] or ("option " .. opttype),
                         directions[direction] or "?", text)
  end
  error({ at = read.at - 4 })
end

local rpc = Dissector.get("rpc")

function proto.dissector(tvb, pinfo, tree)
  pinfo.cols.protocol = "RPCoRDMA2"
  local branch = tree:add(proto, tvb())
  local read = reader(tvb, 0, tvb:len())
  local said
  local ok, failure = pcall(function()
    read.field(branch, f.xid)
    read.field(branch, f.vers)
    read.field(branch, f.credit)
    local kind = read.field(branch, f.proc)
    said = (kinds[kind] or "?") .. " " .. body(tvb, read, branch, kind)
  end)
  if not ok then
    if type(failure) ~= "table" then error(failure) end
    branch:add_proto_expert_info(malformed, "The message breaks a rule at byte " .. failure.at)
    said = "malformed"
  end
  branch:append_text(", " .. said)
  -- The fence keeps this text when a dissector writes into the column next: that of RPC, or the one
  -- of DDP for a message that shares the TCP segment. The blank keeps their texts apart.
  pinfo.cols.info:set(said .. " ")
  pinfo.cols.info:fence()
  branch:set_len(read.at)
  if ok and read.left() > 0 and rpc then rpc:call(tvb(read.at):tvb(), pinfo, tree) end
  return tvb:len()
end

-- Version 2, and what every version has: a type that version two knows. An RDMA2_ERROR of another
-- version is left to the dissector of version one, which has the same form for it.
local function is_ours(tvb, pinfo, tree)
  if tvb:len() < 20 or tvb(4, 4):uint() ~= 2 then return false end
  if not kinds[tvb(12, 4):uint()] then return false end
  proto.dissector(tvb, pinfo, tree)
  return true
end

proto:register_heuristic("iwarp_ddp_rdmap", is_ours)
proto:register_heuristic("infiniband.payload", is_ours)
