"""How well Segue tells cheating from honest work: repositories with an honest agent and a cheating one."""
