# On the host: 1,000 calls with CRC on and off, then 20 fresh connections of each kind, each of which may
# meet the race of siw's responder (docs/interop.md).
lab_wait ready 120
status=0
"$RPCRDMA_COMMAND" --version
for crc in on off; do
  echo "== 1000 NULL calls, CRC $crc"
  "$RPCRDMA_COMMAND" ping "rdma://$GUEST_IP" --program 100003 --version 3 --count 1000 --crc "$crc" || status=1
done
for crc in on off; do
  good=0
  for _ in $(seq 20); do
    "$RPCRDMA_COMMAND" ping "rdma://$GUEST_IP" --program 100003 --version 3 --count 1 --timeout 20 --crc "$crc" \
      >/dev/null && good=$((good + 1))
  done
  echo "== fresh connections answered, CRC $crc: $good of 20"
  [ "$good" -eq 20 ] || status=1
done
echo "== a program that it does not have"
"$RPCRDMA_COMMAND" ping "rdma://$GUEST_IP" --program 99 --version 1 --count 1 && status=1
lab_post done
[ "$status" -eq 0 ] || exit 1
