# The supervisor of a server; see supervisor.rs. Arguments: the directory to make one in, and the
# signal that ends the server at once.
#
# It reads orders, one a line, and answers each with one line. At the end of its input, because the
# test process closed it or is gone, it ends the server and removes the directory.
trap '' PIPE
end_signal=$2
server=
directory=$(mktemp -d "$1/tenure-XXXXXXXX") || exit 1
# A signal is lost on a server that has only begun to start, because programs that a shell starts in
# the background ignore some signals at first; so it is sent until the server is gone. A stopped
# server hears it only once it goes on.
end() {
    while [ -n "$server" ] && kill -s "$1" "$server"; do
        kill -s CONT "$server"
        sleep 0.02
    done
    server=
}
finish() {
    end "$end_signal"
    cd / && rm -rf "$directory"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM
exec 2>>"$directory/log"
cd "$directory" || exit 1
echo "$directory"
while read -r order rest; do
    case $order in
    run)
        eval "$rest" </dev/null >&2
        echo $?
        ;;
    start)
        eval "exec setpriv --pdeathsig $end_signal $rest" </dev/null >&2 &
        server=$!
        echo "$server"
        ;;
    end)
        end "$rest"
        echo ended
        ;;
    esac
done
